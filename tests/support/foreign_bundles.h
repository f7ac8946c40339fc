// Checkpoints of TensorFlow's, made by hand: any entries, right or wrong.
#pragma once

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"
#include "foreign/messages.h"

namespace colla::foreign {

inline void writeBytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A table with these entries, as bytes.
inline std::string tableOf(const std::map<std::string, std::string>& entries,
                           bool compressed = false) {
  class InMemory final : public leveldb::WritableFile {
   public:
    leveldb::Status Append(const leveldb::Slice& data) override {
      bytes.append(data.data(), data.size());
      return {};
    }
    leveldb::Status Close() override { return {}; }
    leveldb::Status Flush() override { return {}; }
    leveldb::Status Sync() override { return {}; }

    std::string bytes;
  };
  InMemory file;
  leveldb::Options options;
  options.compression = compressed ? leveldb::kSnappyCompression : leveldb::kNoCompression;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  builder.Finish();
  return file.bytes;
}

inline std::string headerOf(std::int32_t shards, std::int32_t endianness = 0) {
  std::string bytes;
  protozero::pbf_writer header(bytes);
  header.add_int32(1, shards);
  header.add_int32(2, endianness);
  return bytes;
}

inline std::string bytesOf(const BundleEntry& entry) {
  std::string bytes;
  protozero::pbf_writer message(bytes);
  message.add_int32(1, entry.type);
  std::string shape;
  protozero::pbf_writer dimensions(shape);
  for (const std::int64_t size : entry.shape) {
    std::string dimension;
    protozero::pbf_writer(dimension).add_int64(1, size);
    dimensions.add_message(2, dimension);
  }
  message.add_message(2, shape);
  message.add_int32(3, entry.shard);
  message.add_uint64(4, entry.offset);
  message.add_uint64(5, entry.size);
  message.add_fixed32(6, entry.crc);
  for (const SliceExtents& slice : entry.slices) {
    std::string extents;
    protozero::pbf_writer list(extents);
    for (const SliceExtent& extent : slice) {
      std::string part;
      protozero::pbf_writer writer(part);
      if (extent.length != SliceExtent::kAll) {
        writer.add_int64(1, extent.start);
        writer.add_int64(2, extent.length);
      }
      list.add_message(1, part);
    }
    message.add_message(7, extents);
  }
  return bytes;
}

// Collects tensors, and writes a checkpoint with one shard.
class BundleWriter {
 public:
  template <typename T>
  BundleEntry& add(const std::string& key, int type, const checkpoint::Shape& shape,
                   const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    BundleEntry& entry = entries_[key];
    entry = {.type = type,
             .shape = shape,
             .offset = data_.size(),
             .size = bytes.size(),
             .crc = maskedCrc32c(bytes),
             .slices = {}};
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return entry;
  }
  BundleEntry& entry(const std::string& key) { return entries_[key]; }
  std::string& data() { return data_; }

  void write(const std::string& prefix, bool compressed = false,
             const std::string& header = headerOf(1)) const {
    std::map<std::string, std::string> table = {{"", header}};
    for (const auto& [key, entry] : entries_) table[key] = bytesOf(entry);
    writeBytes(prefix + ".index", tableOf(table, compressed));
    writeBytes(prefix + ".data-00000-of-00001", data_);
  }

 private:
  std::map<std::string, BundleEntry> entries_;
  std::string data_;
};

}  // namespace colla::foreign
