#include "launcher/io/shared_wait.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "launcher/base/fd.h"
#include "launcher/io/turn.h"

namespace trainrun::io {

using boost::asio::posix::stream_descriptor;

// An epoll instance of our own watches the descriptor, and Asio watches the instance.
struct SharedWait::State {
  explicit State(boost::asio::io_context& context) : epoll(context) {}
  stream_descriptor epoll;
};

SharedWait::SharedWait(Loop& loop) : state_(std::make_shared<State>(loop.context())) {}
SharedWait::~SharedWait() = default;

int SharedWait::wait(int fd, For what, std::function<void()> ready) {
  if (!state_->epoll.is_open()) {
    Fd made(::epoll_create1(EPOLL_CLOEXEC));
    if (!made) return errno;
    epoll_event event{};
    event.events = what == For::reading ? EPOLLIN : EPOLLOUT;
    if (::epoll_ctl(made.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno;
    boost::system::error_code error;
    const int number = made.release();
    state_->epoll.assign(number, error);
    if (error) {
      ::close(number);
      return error.value();
    }
  }
  state_->epoll.async_wait(
      stream_descriptor::wait_read,
      [weak = std::weak_ptr(state_), ready = std::move(ready)](const boost::system::error_code& error) {
        const Turn turn;
        if (weak.lock() && !error) ready();
      });
  return 0;
}

}  // namespace trainrun::io
