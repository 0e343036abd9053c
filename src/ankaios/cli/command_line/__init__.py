"""From words to a command: parser, help texts and shell completion. The commands are declared in `ankaios.cli.tree`."""
