#include "trainer/commands/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "model/base/error.h"
#include "trainer/commands/slurm_template.h"
#include "trainer/tools/report/html.h"

namespace trireme {
namespace {

struct ChainText {
  std::string name, output, options, submission, continuation;
};

ChainText text_of(const SlurmJob& job) {
  switch (job.chain) {
    case SlurmChain::kArray:
      return {
          "array", "%x-%A.out",
          fmt::format("#SBATCH --no-requeue\n#SBATCH --array=1-{}%1\n", job.jobs),
          fmt::format("Submit it once; its {} jobs run one after the other: sbatch FILE", job.jobs),
          "the next job of the array starts"};
    case SlurmChain::kSingleton:
      return {"singleton", "%x.out", "#SBATCH --no-requeue\n#SBATCH --dependency=singleton\n",
              fmt::format("Submit it as often as a time limit may pass: "
                          "for job in {{1..{}}}; do sbatch FILE; done",
                          job.jobs),
              "the next job of this name starts"};
    case SlurmChain::kRequeue:
      break;
  }
  return {"requeue", "%x-%j.out", "#SBATCH --requeue\n",
          "Submit it once; it stays in the queue until the run ends: sbatch FILE",
          "the job is requeued"};
}

bool is_plain(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         std::string_view("%+,-./:=@_").find(letter) != std::string_view::npos;
}

// The word, quoted for the shell.
std::string quoted(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      text += R"('\'')";
    } else {
      text += letter;
    }
  }
  return text + "'";
}

// Ranks exit together. One that has not exited half a minute after another is on a lost node, which
// Slurm notices minutes later, or hangs in its exit.
std::string command_line(const SlurmJob& job) {
  std::vector<std::string> words;
  if (!job.is_supervised) {
    words = {"srun", "--mpi=pmix", "--wait=30", R"(--cpus-per-task="$SLURM_CPUS_PER_TASK")"};
  }
  for (const std::string& word : job.command) words.push_back(quoted(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string option_lines(const SlurmJob& job) {
  std::string lines;
  const auto add = [&](const std::string& option) { lines += fmt::format("#SBATCH {}\n", option); };
  if (!job.time.empty()) add(say("--time=", job.time));
  if (!job.partition.empty()) add(say("--partition=", job.partition));
  if (job.is_supervised) add("--no-kill");  // the job survives the loss of a node
  if (job.gpus > 0) add(fmt::format("--gpus-per-node={}", job.gpus));
  for (const std::string& option : job.options) add(option);
  return lines;
}

// A job name that is valid in options, file names and lists of names.
std::string name_of(const std::string& text) {
  std::string name = text.empty() ? "trireme" : text;
  std::replace_if(
      name.begin(), name.end(),
      [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '-' &&
               letter != '_' && letter != '.';
      },
      '-');
  return name;
}

void refuse_line_breaks(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), [](char letter) {
        return std::iscntrl(static_cast<unsigned char>(letter)) != 0;
      })) {
    throw ConfigError(say("a job script cannot hold a control character, as in \"", text, "\""));
  }
}

}  // namespace

std::string slurm_script(const SlurmJob& job) {
  for (const std::string& word : job.command) refuse_line_breaks(word);
  for (const std::string& option : job.options) refuse_line_breaks(option);
  refuse_line_breaks(job.partition);
  refuse_line_breaks(job.run_folder.string());
  refuse_line_breaks(job.checkpoint_folder.string());
  const ChainText chain = text_of(job);
  return fill(kSlurmTemplate,
              {{"name", name_of(job.name)},
               {"nodes", std::to_string(job.nodes + job.spares)},
               {"ranks_per_node", std::to_string(job.ranks_per_node)},
               {"cores", std::to_string(job.cores)},
               {"output", chain.output},
               {"signal", fmt::format("{}USR1@{}", job.is_supervised ? "B:" : "", job.warning)},
               {"options", chain.options + option_lines(job)},
               {"submission", chain.submission},
               {"continuation", chain.continuation},
               {"chain", chain.name},
               {"run_dir", quoted(job.run_folder.string())},
               {"checkpoints", quoted(job.checkpoint_folder.string())},
               {"command", command_line(job)}});
}

std::int64_t slurm_seconds(const std::string& time) {
  static const std::regex kShape(
      "(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,4}))?(?::([0-9]{1,4}))?");
  std::smatch found;
  if (!std::regex_match(time, found, kShape)) {
    throw ConfigError(say("--time: '", time,
                          "' is not a Slurm time limit, such as 90 (minutes), 12:00:00 or 2-00"));
  }
  const auto number = [&](std::size_t group) {
    return found[group].matched ? std::stoll(found[group].str()) : 0;
  };
  const std::int64_t first = number(2), second = number(3), third = number(4);
  if (found[1].matched) return ((number(1) * 24 + first) * 60 + second) * 60 + third;
  return found[4].matched ? (first * 60 + second) * 60 + third : first * 60 + second;
}

}  // namespace trireme
