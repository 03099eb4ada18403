// libssh, loaded at the first dial: a job on this host alone never pays for it (a process start with it costs
// milliseconds). Only ssh_session, ssh_login, ssh_line and ssh_pump know it.
#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include "launcher/base/error.h"

namespace trainrun::transport {

// clang-format off
#define TRAINRUN_SSH_FUNCTIONS(X)                                                                              \
  X(ssh_version) X(ssh_new) X(ssh_free) X(ssh_disconnect) X(ssh_set_blocking) X(ssh_get_error)                  \
  X(ssh_options_set) X(ssh_options_get) X(ssh_options_get_port) X(ssh_options_parse_config)                     \
  X(ssh_string_free_char) X(ssh_connect) X(ssh_get_fd) X(ssh_get_poll_flags)                                    \
  X(ssh_get_serverbanner) X(ssh_session_is_known_server) X(ssh_session_update_known_hosts)                      \
  X(ssh_get_server_publickey) X(ssh_get_publickey_hash) X(ssh_get_fingerprint_hash) X(ssh_clean_pubkey_hash)    \
  X(ssh_key_type) X(ssh_key_type_to_char) X(ssh_key_free) X(ssh_pki_import_privkey_file)                        \
  X(ssh_userauth_none) X(ssh_userauth_list) X(ssh_userauth_publickey) X(ssh_userauth_publickey_auto)            \
  X(ssh_channel_new) X(ssh_channel_free) X(ssh_channel_open_session) X(ssh_channel_request_exec)                \
  X(ssh_channel_read_nonblocking) X(ssh_channel_poll) X(ssh_channel_write) X(ssh_channel_send_eof)                                  \
  X(ssh_channel_window_size) X(ssh_channel_is_eof) X(ssh_channel_is_closed)      \
  X(ssh_set_channel_callbacks) X(ssh_remove_channel_callbacks)                                                  \
  X(ssh_event_new) X(ssh_event_free) X(ssh_event_add_session) X(ssh_event_remove_session) X(ssh_event_dopoll)                \
  X(ssh_set_log_callback) X(ssh_set_log_level)
// clang-format on

struct SshApi {
#define TRAINRUN_SSH_MEMBER(name) decltype(&::name) name = nullptr;
  TRAINRUN_SSH_FUNCTIONS(TRAINRUN_SSH_MEMBER)
#undef TRAINRUN_SSH_MEMBER
};

// Loads the library once; thread-safe. The table lives as long as the process.
Result<const SshApi*> load_ssh_api();

// Where the library's own log goes from this thread (its settings are each thread's own): to our stderr, or
// nowhere, whatever LogLevel ssh_config has.
void set_ssh_log(const SshApi& api, bool shown);

}  // namespace trainrun::transport
