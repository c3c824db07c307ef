. /tests/say.sh
[ "$(/app/greet.sh)" = "$EXPECTED" ] && say 1 || say 0.5
