// The parts of Boost.Asio that the static agent does without, apart from asio.cc: sockets, whose resolver it
// cannot have, and signals.
#define BOOST_ASIO_SOURCE

#include <boost/asio/detail/concurrency_hint.hpp>  // not every one includes what it needs
#include <boost/asio/detail/throw_error.hpp>
//
#include <boost/asio/detail/impl/reactive_socket_service_base.ipp>
#include <boost/asio/detail/impl/resolver_service_base.ipp>
#include <boost/asio/detail/impl/signal_set_service.ipp>
#include <boost/asio/detail/impl/socket_ops.ipp>
#include <boost/asio/generic/detail/impl/endpoint.ipp>
#include <boost/asio/ip/detail/impl/endpoint.ipp>
#include <boost/asio/ip/impl/address.ipp>
#include <boost/asio/ip/impl/address_v4.ipp>
#include <boost/asio/ip/impl/address_v6.ipp>
#include <boost/asio/ip/impl/host_name.ipp>
#include <boost/asio/local/detail/impl/endpoint.ipp>
