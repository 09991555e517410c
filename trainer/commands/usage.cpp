#include "trainer/commands/usage.h"

#include <vector>

#include "model/base/error.h"
#include "trainer/config/hints.h"

namespace trireme {
namespace {

// The innermost command the user reached.
const CLI::App& chosen(const CLI::App& program) {
  const CLI::App* app = &program;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return *app;
}

// "trireme config show"
std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : say(full_name(*parent), " ", app.get_name());
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string see_help(const CLI::App& app) {
  return say("see '", full_name(app), " --help'");
}

std::string join(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

}  // namespace

void allow_unknown_words(CLI::App& program) {
  program.allow_extras();
  for (CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    allow_unknown_words(*command);
  }
}

std::string unknown_word_complaint(const CLI::App& program) {
  const CLI::App& app = chosen(program);
  const std::vector<std::string> words = program.remaining(true);
  if (words.empty()) return {};
  const std::string word = words.front().substr(0, words.front().find('='));
  const bool is_option = word.starts_with("-");
  const std::vector<std::string> commands = command_names(app);
  const bool is_command = !is_option && !commands.empty();
  const std::string near = nearest(word, is_option ? option_names(app) : commands);
  std::string text;
  if (is_option) {
    text = say("'", full_name(app), "' has no option ", word);
  } else if (is_command) {
    text = say("'", full_name(app), "' has no command '", word, "'");
  } else {
    text = say("'", full_name(app), "' does not expect '", word, "'");
  }
  if (!near.empty()) return say(text, "; did you mean ", near, "?");
  // commands with a config accept its keys as options
  if (is_option && word.starts_with("--") && app.get_option_no_throw("CONFIG") != nullptr) {
    const std::string hint = hint_for_key("", word.substr(2), "--");
    if (!hint.empty()) return text + hint;
  }
  if (is_command) return say(text, "; it has: ", join(commands));
  return say(text, "; ", see_help(app));
}

std::string usage_complaint(const CLI::App& program, const CLI::ParseError& error) {
  if (std::string text = unknown_word_complaint(program); !text.empty()) return text;
  const CLI::App& app = chosen(program);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !command_names(app).empty()) {
    return say("'", full_name(app), "' needs a command: ", join(command_names(app)));
  }
  return say("'", full_name(app), "': ", error.what(), "; ", see_help(app));
}

}  // namespace trireme
