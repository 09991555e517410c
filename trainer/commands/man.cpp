#include "trainer/commands/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "trainer/commands/machine.h"
#include "trainer/commands/outline.h"
#include "trainer/commands/output.h"
#include "trainer/config/option.h"
#include "trainer/config/reference.h"

namespace trireme {
namespace {

// Text as roff shows it unchanged.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + roff(text) + "\\fR";
}

std::string synopsis(const CommandOutline& command) {
  std::string line = bold(command.path);
  for (const OptionOutline& option : command.options) {
    if (!option.required) continue;
    line += fmt::format(" {} {}", bold(option.names.front()), italic(option.value));
  }
  if (!command.options.empty()) line += " [" + italic("options") + "]";
  for (const OptionOutline& one : command.positionals) {
    line += one.required ? " " + italic(one.value) : " [" + italic(one.value) + "]";
  }
  if (!command.commands.empty()) line += " " + italic("command");
  if (command.takes_config) line += fmt::format(" [{}]...", bold("--section.key=value"));
  return line;
}

std::string option_entry(const OptionOutline& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty()) head += (head.empty() ? "" : " ") + italic(option.value);
  std::string notes;
  const auto add = [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; };
  if (!option.choices.empty()) add(fmt::format("one of {}", fmt::join(option.choices, ", ")));
  if (!option.limits.empty()) add(option.limits);
  if (!option.default_value.empty()) add("default: " + option.default_value);
  std::string text = option.help;
  if (!notes.empty()) text += (text.empty() ? "(" : " (") + notes + ")";
  return fmt::format(".TP\n{}\n{}\n", head, roff(text));
}

std::string command_section(const CommandOutline& command) {
  std::string text = fmt::format(".SS {}\n{}\n.PP\n{}.\n", roff(command.path), synopsis(command),
                                 roff(command.help));
  for (const OptionOutline& one : command.positionals) text += option_entry(one);
  for (const OptionOutline& one : command.options) text += option_entry(one);
  if (!command.footer.empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.footer));
  return text;
}

std::string config_sections() {
  std::string text;
  std::string section;
  for (const Option& option : options()) {
    if (option.section() != section) {
      section = option.section();
      text += fmt::format(".SS [{}]\n", roff(section));
    }
    const OptionDocs words = docs_of(option);
    std::string notes = fmt::format("{}, default {}", words.type, words.default_value);
    if (!words.allowed.empty()) notes += "; allowed: " + words.allowed;
    text += fmt::format(".TP\n{}\n{}. ({}; on resume: {})\n", bold(option.key), roff(words.help),
                        roff(notes), roff(words.on_resume));
  }
  return text;
}

// Man page (section 1) with all commands, options and config keys.
std::string manual_page(const CommandOutline& program, const std::string& version) {
  std::string text = fmt::format(
      ".\\\" Printed by the program from its tables.\n"
      ".TH TRIREME 1 \"\" \"trireme {}\" \"User Commands\"\n.SH NAME\ntrireme \\- {}\n"
      ".SH SYNOPSIS\n{}\n",
      roff(version), roff(program.help), synopsis(program));
  text += ".SH OPTIONS\n";
  for (const OptionOutline& option : program.options) text += option_entry(option);
  text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n.SH COMMANDS\n", roff(program.footer));
  for (const CommandOutline* command : all_commands(program)) {
    if (command != &program) text += command_section(*command);
  }
  return text + ".SH CONFIG KEYS\n" + config_sections();
}

}  // namespace

Command make_man(CLI::App& program) {
  CLI::App* app = program.add_subcommand("man", "Print the manual page");
  app->footer("To read it: trireme man | man -l -");
  return {app, [&program] {
            print_out(manual_page(outline(program), version()));
            return ExitCode::kDone;
          }};
}

}  // namespace trireme
