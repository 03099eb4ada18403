// The parts of Boost.Asio that are no templates, compiled here and nowhere else: without this every file that
// includes Asio compiles its reactor again (BOOST_ASIO_SEPARATE_COMPILATION in cmake/trainrun.cmake).
#include <boost/asio/impl/src.hpp>
