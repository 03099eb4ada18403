#include "checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace digits {
namespace {

struct Header {
  char magic[8];
  std::uint32_t parameters, epochs_done;
};
constexpr char magic[9] = "digits 1";

[[noreturn]] void give_up(const std::string& what, const std::string& path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

void write_whole(int fd, const void* data, std::size_t size, const std::string& path) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const auto written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) give_up("write", path);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

void sync_and_close(int fd, const std::string& path) {
  const bool synced = ::fsync(fd) == 0;
  if (::close(fd) != 0 || !synced) give_up("write", path);
}

}  // namespace

void save_checkpoint(const std::string& path, const Network& network, int epochs_done) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) give_up("write", temporary);
  Header header{};
  std::memcpy(header.magic, magic, sizeof header.magic);
  header.parameters = static_cast<std::uint32_t>(network.parameters.size());
  header.epochs_done = static_cast<std::uint32_t>(epochs_done);
  try {
    write_whole(fd, &header, sizeof header, temporary);
    for (const auto* values : {&network.parameters, &network.velocity})
      write_whole(fd, values->data(), values->size() * sizeof(double), temporary);
  } catch (...) {
    ::close(fd);
    throw;
  }
  sync_and_close(fd, temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("rename " + temporary + " to", path);
  // The new name is on the disk once its directory is.
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) give_up("open", directory);
  sync_and_close(folder, directory);
}

int load_checkpoint(const std::string& path, Network& network) {
  std::ifstream file(path, std::ios::binary);
  if (!file && ::access(path.c_str(), F_OK) != 0) return 0;
  Header header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || std::memcmp(header.magic, magic, sizeof header.magic) != 0 ||
      header.parameters != network.parameters.size())
    throw std::runtime_error(path + " is not a checkpoint of this network");
  for (auto* values : {&network.parameters, &network.velocity})
    file.read(reinterpret_cast<char*>(values->data()),
              static_cast<std::streamsize>(values->size() * sizeof(double)));
  if (!file || file.peek() != std::ifstream::traits_type::eof())
    throw std::runtime_error(path + " is not as long as a checkpoint is");
  return static_cast<int>(header.epochs_done);
}

}  // namespace digits
