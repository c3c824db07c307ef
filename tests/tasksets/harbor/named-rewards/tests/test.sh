mkdir -p /logs/verifier
python3 - <<'P'
import json, pathlib, subprocess

script = pathlib.Path("/app/count.sh")
printed = subprocess.run(["sh", script], capture_output=True, text=True).stdout if script.exists() else ""
rewards = {"correct": printed.split() == list("12345"), "short": min(1.0, 10 / (script.stat().st_size if printed else 1000))}
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
P
