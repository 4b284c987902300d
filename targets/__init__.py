"""What can be put under load: engines of this process and of other people."""
