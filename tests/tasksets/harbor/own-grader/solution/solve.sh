echo done > report.txt
echo artifact > build/out.txt
echo scrap > build/scrap.tmp
