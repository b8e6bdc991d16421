//! The reference arithmetic on the CPU.
