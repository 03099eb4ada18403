# cmake -DSTRIP=... -DPROGRAM=... -DIMAGE=... -DFACTS=... -DSTAGE=... -DMACHINE=... -P agent_image.cmake
# Strips the agent, writes its hash where agent_image.cc finds it, and stages libexec/trainrun/agent-<sha256>.
execute_process(COMMAND ${STRIP} -o ${IMAGE} ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
file(SHA256 ${IMAGE} hash)
file(WRITE ${FACTS} "#pragma once
namespace trainrun::transport {
inline constexpr const char* agent_image_sha256 = \"${hash}\";
inline constexpr const char* agent_image_machine = \"${MACHINE}\";
}  // namespace trainrun::transport
")
file(REMOVE_RECURSE ${STAGE})
file(MAKE_DIRECTORY ${STAGE})
file(COPY_FILE ${IMAGE} ${STAGE}/agent-${hash})
file(CHMOD ${STAGE}/agent-${hash} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
     WORLD_READ WORLD_EXECUTE)
