"""One file per command.  `command` is a single command, `app` a group.  Rooms are imported inside."""
