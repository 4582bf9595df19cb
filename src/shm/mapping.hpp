// A file's bytes in memory, read only or writable.
#pragma once

#include <sys/mman.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>
#include <utility>

#include "files.hpp"

namespace ddpcache {

class Mapping {
 public:
  Mapping() = default;

  // Maps `bytes` from the file's start, shared. The descriptor may be closed afterwards. MAP_NORESERVE: what is touched
  // was reserved by fallocate, and a mapping on a hugetlbfs would else set pages aside for all of the file.
  static Status map(int fd, uint64_t bytes, Access access, Mapping *mapping) {
    namespace ipc = boost::interprocess;
    struct File {
      int fd;
      ipc::mapping_handle_t get_mapping_handle() const { return {fd, false}; }
    };
    try {
      mapping->region_ = ipc::mapped_region(File{fd}, access == Access::read_only ? ipc::read_only : ipc::read_write, 0,
                                            static_cast<size_t>(bytes), nullptr, MAP_NORESERVE);
      return {};
    } catch (const ipc::interprocess_exception &error) {
      return failure(DC_ERROR_SYSTEM, "mmap of %llu bytes: %s", static_cast<unsigned long long>(bytes), error.what());
    }
  }

  // Leaves the memory mapped for as long as the process lives.
  void abandon() { static_cast<void>(new boost::interprocess::mapped_region(std::move(region_))); }

  uint8_t *data() const { return static_cast<uint8_t *>(region_.get_address()); }

 private:
  boost::interprocess::mapped_region region_;
};

}  // namespace ddpcache
