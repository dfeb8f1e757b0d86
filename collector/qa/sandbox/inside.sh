
trap : INT
IFS= read -r word || exit 90
ulimit -c 0 2>/dev/null
as=$1 probe=$2 reports=$3 save=$4
shift 4
$as mkdir -p "$HOME" 2>/dev/null
command -v tar >/dev/null 2>&1 || { printf '%s missing\n' "$word"; exit 0; }
cd WORKSPACE && $as tar -xof - || { printf '%s setup\n' "$word"; exit 91; }
if [ -n "$reports" ]; then
  $as rm -rf .pm-report
  $as mkdir .pm-report
  for path in $reports; do
    case $path in *.xml) $as rm -f "$path" ;; esac
    case $path in *[*?]*) ;; */*) $as mkdir -p "${path%/*}" 2>/dev/null ;; esac
  done
fi
exec </dev/null
if [ -n "$probe" ]; then
  $as sh -c "$probe" >/dev/null 2>&1 || { printf '%s missing\n' "$word"; exit 0; }
fi
printf '%s start\n' "$word"
$as "$@"
code=$?
kill -9 -1 2>/dev/null
kill -9 -1 2>/dev/null
memory=0
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  if [ -r "$file" ]; then
    while read -r key value; do
      [ "$key" = oom_kill ] && memory=$value
    done < "$file"
  fi
done
printf '\n%s end %s %s\n' "$word" "$code" "$memory"
cd WORKSPACE || exit 0
[ "$save" = yes ] && reports='.[!.]* ..?* *'
set --
for path in $reports; do
  if [ -f "$path" ] || { [ "$save" = yes ] && { [ -e "$path" ] || [ -L "$path" ]; }; }; then set -- "$@" "$path"; fi
done
[ $# -gt 0 ] && exec $as tar -cf - -- "$@" 2>/dev/null
exit 0
