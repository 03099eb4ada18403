// What we use of libpmix's binary interface, in our words: stable from its release 3 on. It is declared here
// and not taken from pmix_server.h, because the library is one of the host's choosing, found at run time, of
// whatever release; tests/unit/pmix compares this with the header where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainrun::pmix::abi {

using Status = int;
using RankNumber = std::uint32_t;
using Type = std::uint16_t;

constexpr std::size_t longest_name_space = 255, longest_key = 511;
constexpr RankNumber every_rank = 0xfffffffe;
constexpr std::uint8_t range_local = 2;  // of an event: the ranks of this server

constexpr Status success = 0, error = -1, bad_param = -27, not_found = -46, not_supported = -47,
                 lost_connection = -61, ended_without_finalize = -200;
constexpr Status succeeded_already = -157;  // done, and the callback will not be called

constexpr Type type_bool = 1, type_string = 3, type_u16 = 13, type_u32 = 14, type_proc = 22, type_info = 24,
               type_array = 39, type_rank = 40, type_regex = 49;

struct Proc {
  char name_space[longest_name_space + 1];
  RankNumber rank;
};
struct ByteObject {
  char* bytes;
  std::size_t size;
};
struct Array {
  Type type;
  std::size_t size;
  void* items;
};
struct Variable {
  char* name;
  char* value;
  char separator;
};
struct Value {
  Type type;
  union {
    bool flag;
    char* string;
    std::uint16_t u16;
    std::uint32_t u32;
    RankNumber rank;
    Proc* proc;
    ByteObject bytes;
    Array* array;
    Variable variable;  // the largest member of all
  } data;
};
struct Info {
  char key[longest_key + 1];
  std::uint32_t flags;
  Value value;
};
struct CpuSet {
  char* source;
  void* bitmap;
};

using Done = void (*)(Status, void* context);
using Release = void (*)(void* context);
using GiveData = void (*)(Status, const char* data, std::size_t size, void* context, Release,
                          void* release_context);
using TakeData = void (*)(Status, char* data, std::size_t size, void* context);

// pmix_server_module_t. It grew at its end with every release, so that room is left behind what we know.
struct Module {
  using Unused = void (*)();
  Unused client_connected;
  Status (*client_finalized)(const Proc*, void* object, Done, void* context);
  Status (*abort)(const Proc*, void* object, int code, const char* words, Proc* targets, std::size_t count,
                  Done, void* context);
  Status (*fence)(const Proc*, std::size_t count, const Info*, std::size_t infos, char* data,
                  std::size_t size, GiveData, void* context);
  Status (*direct_modex)(const Proc*, const Info*, std::size_t infos, GiveData, void* context);
  Status (*publish)(const Proc*, const Info*, std::size_t infos, Done, void* context);
  Status (*lookup)(const Proc*, char** keys, const Info*, std::size_t infos, Unused, void* context);
  Status (*unpublish)(const Proc*, char** keys, const Info*, std::size_t infos, Done, void* context);
  Status (*spawn)(const Proc*, const Info*, std::size_t infos, const void* programs, std::size_t count,
                  Unused, void* context);
  Unused connect, disconnect;
  Status (*register_events)(Status* codes, std::size_t count, const Info*, std::size_t infos, Done,
                            void* context);
  Status (*deregister_events)(Status* codes, std::size_t count, Done, void* context);
  Unused listener;
  Status (*notify_event)(Status, const Proc*, std::uint8_t range, Info*, std::size_t infos, Done,
                         void* context);
  Unused query, tool_connected;
  void (*log)(const Proc*, const Info* data, std::size_t count, const Info* directives, std::size_t infos,
              Done, void* context);
  Unused allocate;
  Status (*job_control)(const Proc*, const Proc* targets, std::size_t count, const Info*, std::size_t infos,
                        Unused, void* context);
  Unused monitor, get_credential, validate_credential, iof_pull, push_stdin, group, fabric;
  Status (*client_connected2)(const Proc*, void* object, Info*, std::size_t infos, Done, void* context);
  Unused later[100];
};

}  // namespace trainrun::pmix::abi
