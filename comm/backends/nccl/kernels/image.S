# The kernels for devices, as nvcc made them; what the build had no nvcc for is text, which no driver takes.
    .section .rodata
    .global trainrun_kernels_begin
    .global trainrun_kernels_end
    .global trainrun_kernels_architectures
    .balign 64
trainrun_kernels_begin:
#ifdef TRAINRUN_KERNELS_FILE
    .incbin TRAINRUN_KERNELS_FILE
#else
    .ascii "built without nvcc"
#endif
trainrun_kernels_end:
    .byte 0
trainrun_kernels_architectures:
    .asciz TRAINRUN_KERNELS_ARCHITECTURES
    .section .note.GNU-stack,"",%progbits
