. /tests/say.sh
[ "$(/app/greet.sh)" = hello ] && say 1 || say 0
