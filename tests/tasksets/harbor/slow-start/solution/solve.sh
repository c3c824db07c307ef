wc -l < data > answer.txt
