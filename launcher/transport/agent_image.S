# The stripped agent, as bytes in the read-only data of trainrun. TRAINRUN_AGENT_FILE comes from CMake.
    .section .rodata
    .global trainrun_agent_image_begin
    .global trainrun_agent_image_end
    .balign 64
trainrun_agent_image_begin:
    .incbin TRAINRUN_AGENT_FILE
trainrun_agent_image_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
