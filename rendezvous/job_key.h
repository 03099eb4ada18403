// The job's key in a file: 64 hexadecimal digits and a newline, readable by its owner alone.
#pragma once

#include <string>
#include <string_view>

#include "launcher/base/error.h"
#include "rendezvous/secure_channel.h"

namespace trainrun::rendezvous {

// What such a file holds; blanks and newlines around it do no harm. `path` is for the error.
Result<Key> parse_key(std::string_view text, std::string_view path);
// Refuses a file that others may read, as ssh does with private keys, and what is no regular file.
Result<Key> read_key_file(const std::string& path);
// Makes a new file with mode 0600; an error if there is one.
Result<void> write_key_file(const std::string& path, const Key& key);

}  // namespace trainrun::rendezvous
