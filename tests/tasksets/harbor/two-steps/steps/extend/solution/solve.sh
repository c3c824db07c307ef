printf '#!/bin/sh\necho hello $(cat /app/name.txt)\n' > greet.sh
