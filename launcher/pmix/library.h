// libpmix, loaded at run time: which release of it a host has is known there alone, and several may lie side
// by side.
#pragma once

#include <string>
#include <vector>

#include "launcher/pmix/abi.h"

namespace trainrun::pmix {

struct Library {
  std::string path;  // as it was asked for

  abi::Status (*server_init)(abi::Module*, abi::Info*, std::size_t) = nullptr;
  abi::Status (*generate_regex)(const char* names, char** regex) = nullptr;
  abi::Status (*generate_ppn)(const char* ranks, char** regex) = nullptr;
  abi::Status (*register_name_space)(const char* name, int local, abi::Info*, std::size_t, abi::Done,
                                     void*) = nullptr;
  void (*deregister_name_space)(const char* name, abi::Done, void*) = nullptr;
  abi::Status (*register_client)(const abi::Proc*, unsigned user, unsigned group, void* object, abi::Done,
                                 void*) = nullptr;
  abi::Status (*setup_fork)(const abi::Proc*, char*** environment) = nullptr;
  abi::Status (*modex_request)(const abi::Proc*, abi::TakeData, void*) = nullptr;
  abi::Status (*notify_event)(abi::Status, const abi::Proc* source, std::uint8_t range, const abi::Info*,
                              std::size_t, abi::Done, void*) = nullptr;
  const char* (*error_string)(abi::Status) = nullptr;
  const char* (*version)() = nullptr;
  // Since release 4; null in older ones.
  abi::Status (*load_value)(abi::Value*, const void* data, abi::Type) = nullptr;
  abi::Status (*parse_cpuset)(const char* text, abi::CpuSet*) = nullptr;
  abi::Status (*locality_string)(const abi::CpuSet*, char** text) = nullptr;

  // The first that can be loaded and has what we need; for good. False: `error` says why the last one cannot.
  bool load(const std::vector<std::string>& paths, std::string& error);
};

}  // namespace trainrun::pmix
