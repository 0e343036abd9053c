"""What `ank` prints and reads: messages, tables, live displays and keys."""
