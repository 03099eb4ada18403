// A worker's stdin: bytes from the Link into its pipe, at the worker's pace. What the worker has not taken
// yet is bounded, since the launcher sends only what was asked for.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/base/fd.h"
#include "launcher/io/loop.h"

namespace trainrun::agent {

class StdinRelay : public std::enable_shared_from_this<StdinRelay> {
 public:
  static constexpr std::uint32_t window = 64u << 10;

  // `wanted(n)` asks for n more bytes; it is called once at the start and whenever the last ones were taken.
  // `wanted(0)`: the worker closed its stdin, and gets no more.
  static std::shared_ptr<StdinRelay> start(io::Loop& loop, Fd pipe,
                                           std::function<void(std::uint32_t)> wanted);
  ~StdinRelay();
  void give(std::string bytes, bool end);
  void close();
  // How many bytes the worker has read. What it has not lies in the pipe, also when its end is closed.
  [[nodiscard]] std::uint64_t taken() const;

 private:
  struct Pipe;
  StdinRelay(io::Loop& loop, Fd pipe, std::function<void(std::uint32_t)> wanted);
  void write();

  std::function<void(std::uint32_t)> wanted_;
  std::unique_ptr<Pipe> pipe_;
};

}  // namespace trainrun::agent
