"""What holds for every test: the same random examples each time, and commands that hear Ctrl-C."""

import signal

from hypothesis import settings

# A failure is seen again by whoever runs the same tests. `--hypothesis-profile=default` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

# A shell starts what runs in its background with SIGINT ignored, and commands started from there inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
