// Our words for libpmix's binary interface, beside its own header.
#include <doctest/doctest.h>
#include <pmix_server.h>

#include "launcher/pmix/abi.h"

namespace abi = trainrun::pmix::abi;

#define SAME_PLACE(ours, our_member, theirs, their_member)                     \
  static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member)); \
  static_assert(sizeof(ours::our_member) == sizeof(theirs::their_member))

static_assert(sizeof(abi::Proc) == sizeof(pmix_proc_t));
SAME_PLACE(abi::Proc, rank, pmix_proc_t, rank);
static_assert(sizeof(abi::ByteObject) == sizeof(pmix_byte_object_t));
SAME_PLACE(abi::ByteObject, size, pmix_byte_object_t, size);
static_assert(sizeof(abi::Array) == sizeof(pmix_data_array_t));
SAME_PLACE(abi::Array, items, pmix_data_array_t, array);
static_assert(sizeof(abi::Value) == sizeof(pmix_value_t));
SAME_PLACE(abi::Value, data, pmix_value_t, data);
static_assert(sizeof(abi::Info) == sizeof(pmix_info_t));
SAME_PLACE(abi::Info, flags, pmix_info_t, flags);
SAME_PLACE(abi::Info, value, pmix_info_t, value);
static_assert(sizeof(abi::CpuSet) == sizeof(pmix_cpuset_t));

static_assert(sizeof(abi::Module) >= sizeof(pmix_server_module_t));
SAME_PLACE(abi::Module, client_finalized, pmix_server_module_t, client_finalized);
SAME_PLACE(abi::Module, abort, pmix_server_module_t, abort);
SAME_PLACE(abi::Module, fence, pmix_server_module_t, fence_nb);
SAME_PLACE(abi::Module, direct_modex, pmix_server_module_t, direct_modex);
SAME_PLACE(abi::Module, publish, pmix_server_module_t, publish);
SAME_PLACE(abi::Module, lookup, pmix_server_module_t, lookup);
SAME_PLACE(abi::Module, unpublish, pmix_server_module_t, unpublish);
SAME_PLACE(abi::Module, spawn, pmix_server_module_t, spawn);
SAME_PLACE(abi::Module, register_events, pmix_server_module_t, register_events);
SAME_PLACE(abi::Module, deregister_events, pmix_server_module_t, deregister_events);
SAME_PLACE(abi::Module, notify_event, pmix_server_module_t, notify_event);
SAME_PLACE(abi::Module, job_control, pmix_server_module_t, job_control);
SAME_PLACE(abi::Module, log, pmix_server_module_t, log);
SAME_PLACE(abi::Module, client_connected2, pmix_server_module_t, client_connected2);

TEST_CASE("numbers are those of libpmix's own header") {
  CHECK(abi::longest_name_space == PMIX_MAX_NSLEN);
  CHECK(abi::longest_key == PMIX_MAX_KEYLEN);
  CHECK(abi::every_rank == PMIX_RANK_WILDCARD);
  CHECK(abi::success == PMIX_SUCCESS);
  CHECK(abi::error == PMIX_ERROR);
  CHECK(abi::bad_param == PMIX_ERR_BAD_PARAM);
  CHECK(abi::not_found == PMIX_ERR_NOT_FOUND);
  CHECK(abi::not_supported == PMIX_ERR_NOT_SUPPORTED);
  CHECK(abi::lost_connection == PMIX_ERR_LOST_CONNECTION);
  CHECK(abi::ended_without_finalize == PMIX_ERR_PROC_TERM_WO_SYNC);
  CHECK(abi::range_local == PMIX_RANGE_LOCAL);
  CHECK(abi::succeeded_already == PMIX_OPERATION_SUCCEEDED);
  CHECK(abi::type_bool == PMIX_BOOL);
  CHECK(abi::type_string == PMIX_STRING);
  CHECK(abi::type_u16 == PMIX_UINT16);
  CHECK(abi::type_u32 == PMIX_UINT32);
  CHECK(abi::type_proc == PMIX_PROC);
  CHECK(abi::type_info == PMIX_INFO);
  CHECK(abi::type_array == PMIX_DATA_ARRAY);
  CHECK(abi::type_rank == PMIX_PROC_RANK);
  CHECK(abi::type_regex == PMIX_REGEX);
}
