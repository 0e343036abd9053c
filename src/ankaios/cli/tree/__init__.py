"""The declarations of all commands of `ank`. They import no command."""
