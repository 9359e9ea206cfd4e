//! A directory of its own for an agent, filled from the host within stated limits.
