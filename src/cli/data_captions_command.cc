#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "data/record/make_captions.h"
#include "data_commands.h"
#include "percent_line.h"

namespace colla::cli {

int dataCaptionsCommand(const Arguments& arguments) {
  CLI::App app(
      "Makes a data set of images and their captions:\n"
      "colla data captions --images DIR --annotations FILE.json --out DIR",
      "colla data captions");
  app.footer(
      "FILE.json is as COCO's captions_train2017.json: \"images\" with \"id\" and \"file_name\",\n"
      "\"annotations\" with \"image_id\" and \"caption\". The folder --out gets train.tfrecord,\n"
      "test.tfrecord (one tf.Example per image, with all of its captions) and vocab.txt, and is\n"
      "what colla train --data takes.\n");
  data::CaptionsPlan plan;
  app.add_option("--images", plan.images, "folder with the images")->option_text("DIR")->required();
  app.add_option("--annotations", plan.annotations, "JSON file")->option_text("FILE")->required();
  app.add_option("--out", plan.out, "folder to write to")->option_text("DIR")->required();
  app.add_option("--vocabulary", plan.vocabulary,
                 "file with the words, one per line; made of the captions unless given")
      ->option_text("FILE");
  app.add_option("--words", plan.words, "at most so many words; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--min-count", plan.minCount, "leave out words that come less often")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--test-share", plan.testShare, "part of the images that is for the test")
      ->capture_default_str();
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (!(plan.testShare >= 0 && plan.testShare < 1)) {
    return usageError(app.get_name(),
                      fmt::format("--test-share is {}, but is from 0 to below 1", plan.testShare));
  }

  const auto made = [&plan] {
    PercentLine percent("writing images");
    return data::makeCaptions(
        plan, [&](std::int64_t done, std::int64_t all) { percent.update(done, all); });
  }();
  if (!made.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), made.status().message());
    return 1;
  }
  fmt::print("{}: {} images to train with, {} to test with, {} captions, {} words\n", plan.out,
             made->train, made->test, made->captions, made->words);
  if (made->skipped > 0) fmt::print("{} images have no caption and were left out\n", made->skipped);
  return 0;
}

}  // namespace colla::cli
