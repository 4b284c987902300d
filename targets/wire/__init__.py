"""What HTTP replies are made of, byte by byte: knows no socket, no clock and no API."""
