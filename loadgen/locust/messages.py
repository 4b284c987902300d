"""The messages between master and workers, by name. Each bears the run it belongs to."""

PIECE_BYTES = 900_000
"""Of a blob at most so much in one message: a larger one makes the sender's hub stand still."""

SETUP = "tokenload_setup"
"""To a worker: what its player is to do, and in how many pieces the schedule follows."""
SCHEDULE = "tokenload_schedule"
"""To a worker: one piece of schedule.parquet."""
SAY = "tokenload_say"
"""To a worker: a line for its player."""
ACK = "tokenload_ack"
"""To a worker: this part is stored."""
KILL = "tokenload_kill"
"""To a worker: the run is over."""
PING = "tokenload_ping"
TO_WORKER = (SETUP, SCHEDULE, SAY, ACK, KILL, PING)

LINE = "tokenload_line"
"""To the master: a line of a player."""
PART = "tokenload_part"
"""To the master: one piece of a part."""
PONG = "tokenload_pong"
TO_MASTER = (LINE, PART, PONG)
