#!/bin/sh
# Runs TLC on the specification.
#
#   run.sh check CLASSPATH [CONFIG...]   model-check the configs (default: all) and say what TLC found
#   run.sh graph CLASSPATH [CONFIG...]   make the graphs of the StreamGraph configs in model/testdata anew
#
# CLASSPATH is a tla2tools.jar that has the Json module, or such a jar and CommunityModules.jar with a
# colon between. JAVA_OPTS is passed to java. A config whose first line says EXPECTED TO FAIL must be
# violated, and by the property that it names; every other one must hold.
set -u

usage() {
	sed -n 's/^# \{0,1\}//; 2,10p' "$0" >&2
	exit 2
}

[ $# -ge 2 ] || usage
task=$1 jar=$2
shift 2
case $task in check | graph) ;; *) usage ;; esac
if [ -z "$jar" ]; then
	echo "run.sh: which tla2tools.jar? Say make TARGET TLA2TOOLS=/path/to/tla2tools.jar; docs/spec/README.md tells more" >&2
	exit 2
fi

spec=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$spec/../.." && pwd)
old_ifs=$IFS IFS=:
class_path=
for part in $jar; do
	[ -r "$part" ] || { echo "run.sh: $part: no such file; it must be a tla2tools.jar" >&2; exit 2; }
	class_path=$class_path${class_path:+:}$(cd "$(dirname "$part")" && pwd)/$(basename "$part")
done
IFS=$old_ifs
command -v java >/dev/null || { echo "run.sh: java is not on the PATH; TLC needs Java 11 or newer" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# tlc CONFIG: prints what TLC prints. One worker: graphs and counts of violated configs stay the same.
tlc() {
	(cd "$spec" && java ${JAVA_OPTS:--XX:+UseSerialGC} -cp "$class_path" tlc2.TLC -workers 1 -noGenerateSpecTE \
		-metadir "$work/states" -config "$1.cfg" "${1%%_*}.tla" 2>&1)
}

# property CONFIG: the last invariant or property that the config names.
property() { sed -n -e 's/^INVARIANTS* *//p' -e 's/^PROPERT[IESY]* *//p' "$spec/$1.cfg" | tail -1; }

# judge CONFIG LOG: tells whether TLC said what it had to, and prints a line about it.
judge() {
	counts=$(sed -n 's/^\([0-9]*\) states generated, \([0-9]*\) distinct.*/\1 \2/p' "$2" | tail -1)
	held=0
	grep -q '^Model checking completed. No error has been found' "$2" && held=1
	violated=0
	grep -Eq "^Error: (Invariant|Action property|Temporal property) $(property "$1") (is|was) violated|^Error: Temporal properties were violated" "$2" && violated=1
	if head -1 "$spec/$1.cfg" | grep -q 'EXPECTED TO FAIL'; then
		want=violated ok=$violated
	else
		want=holds ok=$held
	fi
	# shellcheck disable=SC2086 # the counts are two words
	if [ "$ok" = 1 ]; then
		printf '%-22s %12s %12s  %s\n' "$1" $counts "$want"
		return 0
	fi
	printf '%-22s  WRONG: expected: %s. TLC said:\n' "$1" "$want"
	grep -v '^"' "$2" | sed 's/^/    /'
	if grep -q 'find source file for module Json' "$2"; then
		echo "    This TLC has no Json module: put CommunityModules.jar on the class path too (see docs/spec/README.md)."
	fi
	return 1
}

if [ $# = 0 ]; then
	pattern='*.cfg'
	[ "$task" = graph ] && pattern='StreamGraph*.cfg'
	for f in "$spec"/$pattern; do set -- "$@" "$(basename "$f" .cfg)"; done
fi

for config; do
	[ -r "$spec/$config.cfg" ] || { echo "run.sh: $config: there is no $spec/$config.cfg" >&2; exit 2; }
done

failed=0
if [ "$task" = graph ]; then
	(cd "$root" && go build -o "$work/graphgen" ./model/graphgen) || exit 1
	for config; do
		tlc "$config" | "$work/graphgen" -spec "$spec" -out "$root/model/testdata" "$config" || failed=1
	done
	exit $failed
fi

printf '%-22s %12s %12s\n' config generated distinct
for config; do
	tlc "$config" | grep -v '^"' >"$work/log"
	judge "$config" "$work/log" || failed=$((failed + 1))
done
[ $failed = 0 ] || { echo "$failed of $# configs did not do as expected" >&2; exit 1; }
echo "all $# configs did as expected"
