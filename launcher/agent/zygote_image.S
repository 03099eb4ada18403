# The parts of the zygote's script behind each other, as bytes in the read-only data of agent and launcher.
# TRAINRUN_ZYGOTE_FILE comes from CMake.
    .section .rodata
    .global trainrun_zygote_begin
    .global trainrun_zygote_end
trainrun_zygote_begin:
    .incbin TRAINRUN_ZYGOTE_FILE
trainrun_zygote_end:
    .byte 0
    .section .note.GNU-stack,"",%progbits
