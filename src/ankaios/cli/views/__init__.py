"""Messages of the server as rows, lines and JSON. Pure: messages in, texts out."""
