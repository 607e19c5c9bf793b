"""The worker of the stand-in HIP runtime: it executes the machine code of gfx1100 with an emulator, which this repository does not contain."""
