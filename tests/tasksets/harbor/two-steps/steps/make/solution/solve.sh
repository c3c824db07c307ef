printf '#!/bin/sh\necho hello\n' > greet.sh
chmod +x greet.sh
