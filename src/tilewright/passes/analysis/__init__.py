"""What passes find out about IR without changing it, and the helpers they write IR with."""
