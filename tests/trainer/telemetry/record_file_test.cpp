#include "trainer/telemetry/record_file.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "tests/trainer/telemetry/captured_log.h"
#include "tests/trainer/telemetry/file_size_limit.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

TEST(RecordFile, a_full_disk_leaves_only_whole_records_and_loses_none) {
  const ScratchFolder folder;
  RecordFile file(folder / "records");
  const CapturedLog log;
  {
    const FileSizeLimit limit(25);  // the third record fits only in part
    for (const char* record : {"record 01\n", "record 02\n", "record 03\n", "record 04\n"}) {
      file.append(record);
    }
    EXPECT_EQ(read_text(folder / "records"), "record 01\nrecord 02\n");
    EXPECT_EQ(file.waiting(), 2u);
    EXPECT_FALSE(file.sync());
  }
  file.append("record 05\n");
  EXPECT_EQ(read_text(folder / "records"),
            "record 01\nrecord 02\nrecord 03\nrecord 04\nrecord 05\n");
  EXPECT_EQ(file.waiting(), 0u);
  EXPECT_EQ(file.lost(), 0u);
  EXPECT_TRUE(file.sync());
  EXPECT_EQ(log.count("cannot write"), 1) << log.text();
  EXPECT_EQ(log.count("is writable again"), 1) << log.text();
}

TEST(RecordFile, each_new_failure_is_told_again) {
  const ScratchFolder folder;
  RecordFile file(folder / "records");
  const CapturedLog log;
  for (const rlim_t size : {5, 15}) {
    {
      const FileSizeLimit limit(size);
      file.append("record 01\n");
    }
    file.sync();
  }
  EXPECT_EQ(log.count("cannot write"), 2) << log.text();
}

TEST(RecordFile, beyond_the_limit_the_oldest_waiting_records_go) {
  const ScratchFolder folder;
  RecordFile file(folder / "records", 20);
  const CapturedLog log;
  {
    const FileSizeLimit limit(0);
    for (int i = 0; i < 5; ++i) file.append("record 0" + std::to_string(i) + "\n");
    EXPECT_EQ(file.waiting(), 2u);
    EXPECT_EQ(file.lost(), 3u);
  }
  file.sync();
  EXPECT_EQ(read_text(folder / "records"), "record 03\nrecord 04\n");
  EXPECT_EQ(log.count("dropping the oldest"), 1) << log.text();
}

TEST(RecordFile, the_destructor_writes_what_waits) {
  const ScratchFolder folder;
  const CapturedLog log;
  {
    RecordFile file(folder / "records");
    const FileSizeLimit limit(4);
    file.append("record 01\n");
    EXPECT_EQ(read_text(folder / "records"), "");
  }  // the limit goes first
  EXPECT_EQ(read_text(folder / "records"), "record 01\n");
}

TEST(RecordFile, appends_to_what_is_there) {
  const ScratchFolder folder;
  { RecordFile(folder / "records").append("one\n"); }
  { RecordFile(folder / "records").append("two\n"); }
  EXPECT_EQ(read_text(folder / "records"), "one\ntwo\n");
}

TEST(RecordFile, a_missing_folder_is_an_environment_error_that_names_the_file) {
  const ScratchFolder folder;
  try {
    RecordFile file(folder / "nowhere/records");
    FAIL() << "opened";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("nowhere/records"), std::string::npos);
  }
}

TEST(RecordFile, threads_never_mix_their_records) {
  const ScratchFolder folder;
  {
    RecordFile file(folder / "records");
    std::vector<std::jthread> threads;
    for (const char c : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([&file, c] {
        for (int i = 0; i < 500; ++i) file.append(std::string(30, c) + "\n");
      });
    }
  }
  const std::string text = read_text(folder / "records");
  ASSERT_EQ(text.size(), 4u * 500 * 31);
  for (std::size_t at = 0; at < text.size(); at += 31) {
    EXPECT_EQ(text.substr(at, 31), std::string(30, text[at]) + "\n");
  }
}

}  // namespace
}  // namespace trireme
