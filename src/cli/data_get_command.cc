#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/nearest.h"
#include "data_commands.h"
#include "fetch/download.h"
#include "fetch/table.h"
#include "percent_line.h"

namespace colla::cli {
namespace {

namespace fs = std::filesystem;

std::string setsForHelp() {
  std::string text = "Data sets:\n";
  for (const fetch::PublishedSet& set : fetch::publishedSets()) {
    text += fmt::format("  {:14} {}{}\n", set.name, set.summary,
                        !set.byHand.empty() ? " (by hand)"
                        : set.tested        ? ""
                                            : " (addresses untested)");
  }
  return text;
}

// Addresses of a file: those of the table or, with --from, that one alone.
std::vector<std::string> addressesOf(const fetch::PublishedSet& set, std::string_view file,
                                     const std::string& from) {
  if (!from.empty()) {
    const bool slash = from.ends_with('/');
    return {fmt::format("{}{}{}", from, slash ? "" : "/", file)};
  }
  std::vector<std::string> addresses;
  for (const std::string_view mirror : set.mirrors)
    addresses.push_back(fmt::format("{}{}", mirror, file));
  return addresses;
}

}  // namespace

int dataGetCommand(const Arguments& arguments) {
  CLI::App app(
      "Fetches a public data set: mirrors in turn, going on with a broken download, checked before "
      "a file "
      "gets\nits name:\ncolla data get NAME [flags]",
      "colla data get");
  app.footer(setsForHelp() +
             "\nExit code: 0, 2 for a wrong command line, 1 where a file could not be "
             "fetched.\n\nExamples:\n"
             "  colla data get mnist --dir data/mnist\n"
             "  colla data get cifar10 --from /media/stick\n");
  std::string name;
  std::string directory;
  std::string from;
  int stall = 30;
  app.add_option("NAME", name, "which data set")->required();
  app.add_option("--dir", directory, "where to put its files (NAME)")->option_text("DIR");
  app.add_option("--from", from, "take the files from this folder or address instead")
      ->option_text("DIR|URL");
  app.add_option("--stall", stall, "give a server up that sends nothing for so long (30)")
      ->option_text("SECONDS")
      ->check(CLI::PositiveNumber);
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  const fetch::PublishedSet* const set = fetch::findSet(name);
  if (set == nullptr) {
    std::vector<std::string> names;
    for (const fetch::PublishedSet& each : fetch::publishedSets()) names.emplace_back(each.name);
    return usageError(app.get_name(),
                      fmt::format("there is no data set \"{}\"{} (see colla data get --help)", name,
                                  didYouMean(name, names)));
  }
  if (!set->byHand.empty()) {
    return usageError(app.get_name(),
                      fmt::format("{} cannot be fetched by this command: {}", name, set->byHand));
  }
  if (!from.empty() && from.find("://") == std::string::npos && !fs::is_directory(from)) {
    return usageError(app.get_name(),
                      fmt::format("--from is {}, which is neither a folder nor an address", from));
  }
  if (directory.empty()) directory = name;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return usageError(app.get_name(),
                      fmt::format("cannot make --dir {}: {}", directory, error.message()));
  }
  if (from.empty() && !set->tested) {
    fmt::print(stderr, "{}: nobody has tried these addresses yet: the checksums decide\n",
               app.get_name());
  }
  for (const fetch::PublishedFile& file : set->files) {
    const fetch::Wanted wanted{.path = fmt::format("{}/{}", directory, file.name),
                               .bytes = file.bytes,
                               .md5 = std::string(file.md5)};
    if (fs::exists(wanted.path, error) && fetch::mismatch(wanted.path, wanted).empty()) {
      fmt::print("{}: there already\n", wanted.path);
      continue;
    }
    PercentLine percent{std::string(file.name)};
    fetch::DownloadOptions options;
    options.stallLimit = std::chrono::seconds(stall);
    options.progress = [&](std::int64_t have, std::int64_t all) { percent.update(have, all); };
    const Status status = fetch::download(wanted, addressesOf(*set, file.name, from), options);
    if (!status.ok()) {
      fmt::print(
          stderr,
          "{}: {}; the same command goes on where this one stopped, and --from takes a folder "
          "or a different address\n",
          app.get_name(), status.message());
      return 1;
    }
    fmt::print("{}\n", wanted.path);
  }
  if (set->files.front().name.ends_with(".tar.gz")) {
    fmt::print("unpack with: tar -C {} -xzf {}/{}\n", directory, directory,
               set->files.front().name);
  }
  fmt::print("train with: --data {}{}\n", set->open, directory);
  return 0;
}

}  // namespace colla::cli
