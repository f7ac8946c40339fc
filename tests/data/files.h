// Folders and IDX files that tests make.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace colla::data {

// A new folder, removed with everything in it at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, std::string_view contents) const;

 private:
  std::filesystem::path path_;
};

// A header of unsigned bytes, then `elements`.
std::string idx(std::initializer_list<std::uint32_t> shape, std::string_view elements);
std::string gzip(std::string_view plain);

}  // namespace colla::data
