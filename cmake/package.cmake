# What goes beside programs and libraries into an installation, and how `cpack -G DEB` makes packages
# of it: the launcher, and the library of collectives, which alone needs Gloo.
# The folders install their own parts: cli, launcher/transport (the agent), comm, man.
set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/trainrun)
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${doc})
install(FILES ${CMAKE_SOURCE_DIR}/launcher/ARCHITECTURE.md DESTINATION ${doc}/launcher)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/launcher/decisions DESTINATION ${doc}/launcher FILES_MATCHING PATTERN "*.md")
install(FILES ${CMAKE_SOURCE_DIR}/rendezvous/PROTOCOL.md DESTINATION ${doc}/rendezvous)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${doc}
        PATTERN "CMakeLists.txt" EXCLUDE PATTERN "examples/run" EXCLUDE PATTERN "__pycache__" EXCLUDE)

set(CPACK_PACKAGE_NAME trainrun)
set(CPACK_PACKAGE_VENDOR "trainrun")
set(CPACK_PACKAGE_CONTACT "trainrun maintainers <maintainers@trainrun.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "launcher of distributed training jobs")
set(CPACK_PACKAGE_DESCRIPTION
"Starts ranked workers on this host or over SSH on others, hands them their
places through a rendezvous, carries their output, and ends as they end.
Nothing has to be installed on the other hosts.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)  # targets alone: the agent's file is named by its hash and stays as it is
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # also has the package call ldconfig
# libssh is loaded at the first login (launcher/decisions/0002), so that the linker's list does not name it.
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_RECOMMENDS "libssh-4, openssh-client")
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SUGGESTS libtrainrun-comm)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL launcher comm)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_NAME trainrun)
set(CPACK_DEBIAN_COMM_PACKAGE_NAME libtrainrun-comm)
set(CPACK_DEBIAN_COMM_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_COMM_DESCRIPTION
"collectives for programs that trainrun starts
A small library for C++, C and Python: all-reduce and its kin over shared
memory, Gloo and NCCL, and elastic training loops.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_GENERATOR DEB)
include(CPack)
