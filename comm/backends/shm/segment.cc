#include "comm/backends/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace trainrun::comm {
namespace {

tl::unexpected<Error> refused(const std::string& what, int error) {
  return tl::unexpected(Error{Code::try_again, fmt::format("{}: {}", what, errno_text(error)), {}});
}

Result<Fd> make_file(const std::string& folder, std::string& name) {
  name = folder + "/trainrun-comm-XXXXXX";
  Fd fd(::mkostemp(name.data(), O_CLOEXEC));  // mode 0600
  if (!fd) return refused(name, errno);
  return fd;
}

}  // namespace

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      place_(std::move(other.place_)),
      to_unlink_(std::exchange(other.to_unlink_, {})),
      fd_(std::move(other.fd_)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
  std::swap(to_unlink_, other.to_unlink_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment::~Segment() {
  close_door();
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void Segment::close_door() {
  if (!to_unlink_.empty()) ::unlink(std::exchange(to_unlink_, {}).c_str());
  fd_.reset();
}

Result<Segment> Segment::map_fd(int fd, Bytes bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return refused("fstat", errno);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size != bytes.all && size != bytes.first)
    return tl::unexpected(
        Error{Code::try_again, fmt::format("it has {} bytes, not {}", size, bytes.all), {}});
  void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return refused("mmap", errno);
  Segment segment;
  segment.data_ = static_cast<char*>(data);
  segment.bytes_ = size;
  // A forked child that could write here would do it in its parent's name.
  if (::madvise(data, size, MADV_DONTFORK) != 0) return refused("madvise", errno);
  return segment;
}

// Written to without this, memory that the host does not have may end the process by SIGBUS. A control
// group's limit ends it here as it would anywhere.
bool Segment::provide(char* begin, std::size_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older headers do not have
  return ::madvise(begin, bytes, populate_write) == 0;
}

void Segment::give_back(char* begin, std::size_t bytes) { ::madvise(begin, bytes, MADV_REMOVE); }

Result<Segment> Segment::create(Kind kind, Bytes bytes, const std::string& folder) {
  // Memory counts as a file here, and one above the limit would end the process by SIGXFSZ.
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0;
  if (limited && bytes.first > limit.rlim_cur)
    return refused(
        fmt::format("{} bytes are above the limit of {} for a file (ulimit -f)", bytes.first, limit.rlim_cur),
        EFBIG);
  const bool all = kind == Kind::anonymous && !(limited && bytes.all > limit.rlim_cur);
  Fd fd;
  std::string name;
  if (kind == Kind::anonymous) {
    fd = Fd(::memfd_create("trainrun-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) return refused("memfd_create", errno);
  } else {
    auto made = make_file(folder, name);
    if (!made) return tl::unexpected(made.error());
    fd = std::move(*made);
  }
  const auto undo = [&](const char* what, int error) {
    if (!name.empty()) ::unlink(name.c_str());
    return refused(fmt::format("{} of {} bytes", what, bytes.first), error);
  };
  // Memory that is missing shows now, not as a SIGBUS in the middle of an operation.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes.first)); error != 0)
    return undo("posix_fallocate", error);
  if (all && ::ftruncate(fd.get(), static_cast<off_t>(bytes.all)) != 0) return undo("ftruncate", errno);
  if (kind == Kind::anonymous &&
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return undo("sealing", errno);
  auto segment = map_fd(fd.get(), bytes);
  if (!segment) {
    if (!name.empty()) ::unlink(name.c_str());
    return segment;
  }
  segment->place_ = name.empty() ? fmt::format("/proc/{}/fd/{}", ::getpid(), fd.get()) : name;
  segment->to_unlink_ = std::move(name);
  segment->fd_ = std::move(fd);
  return segment;
}

Result<Segment> Segment::map(const std::string& place, Bytes bytes) {
  const Fd fd(::open(place.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return refused(place, errno);
  auto segment = map_fd(fd.get(), bytes);
  if (!segment)
    return tl::unexpected(Error{Code::try_again, fmt::format("{}: {}", place, segment.error().message), {}});
  return segment;
}

}  // namespace trainrun::comm
