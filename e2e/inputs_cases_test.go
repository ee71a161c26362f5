package e2e

// buildCase is a context, and what is built of it, on whose inputs the hash and
// the builders must agree.
type buildCase struct {
	name     string
	at       string   // path of the Dockerfile; "" is Dockerfile
	head     string   // what it begins with
	parts    []part   // its stages; a last one, which gathers what they made, is added
	files    []string // "path", "path=content", "path->target", "path!" (executable), "path/" (empty directory)
	args     map[string]string
	platform string
}

// part is one stage of a case. The hash is asked for the inputs of each alone, and
// a builder shows what each has read by what it made, so that one build answers
// for many.
type part struct {
	name  string
	text  string // instructions; {{part}} is the stage's name, {{more}} that of one that may follow
	from  string // what the stage is built FROM; "" is scratch
	out   string // what it made; "" is all of it
	since int    // the first major version of the engine whose BuildKit knows this; others refuse it
	// classic and buildKit say how a builder differs from the hash; nil is not at all.
	classic, buildKit *difference
}

// difference is what is known of a builder that does something else.
type difference struct {
	refuses bool
	byCtis  bool   // in any case: of the engines some refuse it, and others build something else
	reads   string // otherwise, the files it reads
}

var (
	refuses = &difference{refuses: true}
	ignores = &difference{refuses: true, byCtis: true}
)

// small is a context with a bit of everything. No two files have one name, so that
// none hides another where they are copied to.
var small = []string{"a", "b", "dir/da", "dir/db", "dir/sub/sa", "dir/sub/.hidden", "other/oa", "run.sh!", "a b", "arr[0].txt", "arr0.txt",
	"root/ra", "dir.d/dda", "bin/amd64", "bin/arm64", "linux/amd64", "linux/arm64", "[x]", "x"}

// buildCases cover each rule of the hash that a builder can be asked about. What
// a builder does otherwise is said in docs/how-it-works.md.
var buildCases = []buildCase{
	{name: "sources", files: small, args: map[string]string{"GIVEN": "other", "UNASKED": "other"}, head: "# check=skip=all\nARG GLOBAL=dir\n", parts: []part{
		{name: "file", text: "COPY a /x"},
		{name: "directory", text: "COPY dir /x"},
		{name: "rooted, dotted and climbing paths", text: "COPY /a ./dir/../b dir/./sub/. /x/"},
		{name: "parent of the context is the context", text: "COPY ../../dir/da /x", classic: refuses},
		{name: "json form and names with blanks", text: `COPY ["a b", "b", "/x/"]`},
		{name: "add", text: "ADD a dir /x/"},
		{name: "mixed case", text: "CoPy a /x/\nadd b /x/"},
		{name: "continued with comments inside", text: "COPY a \\\n# not this\n\n b \\\n /x/"},
		{name: "chown", text: "COPY --chown=7:7 a /x/"},
		{name: "chmod", text: "COPY --chmod=711 a /x/", classic: refuses},
		{name: "link", text: "COPY --link dir /x", since: 23, classic: ignores},
		{name: "star stays in its directory", text: "COPY */?a /x/"},
		{name: "star matches directories", text: "COPY d* /x/"},
		{name: "double star is a star", text: "COPY **/db /x/"},
		{name: "question mark and class", text: "COPY ? dir/d[b-z] /x/"},
		{name: "brackets in a name", text: "COPY arr[[]0].txt /x/"},
		{name: "glob beside another source may match nothing", text: "COPY a *.lock /x/"},
		{name: "arg default", text: "ARG D=dir\nCOPY $D/da ${D}/db /x/"},
		{name: "build argument", text: "ARG GIVEN=dir\nCOPY $GIVEN/?a /x/"},
		{name: "build argument nobody declares", text: "ENV UNASKED=dir\nCOPY $UNASKED/?a /x/"},
		{name: "global arg", text: "ARG GLOBAL\nCOPY $GLOBAL/da /x/"},
		{name: "global arg nobody asks for", text: "COPY ${GLOBAL}a /x/"},
		{name: "arg without a value", text: "ARG D\nCOPY ${D}a dir/${D:-db} ${D:+no}run.sh /x/"},
		{name: "prefix and suffix", text: "ARG D=./dir.d\nCOPY ${D#./}/dda ${D%.d}/db /x/", since: 25},
		{name: "nothing sets it", text: "COPY ${NOPE}a dir/${NOPE:-db} /x/"},
		{name: "env of its own and of the line above", text: "ENV A=di B=r\nENV A=x C=$A$B\nCOPY $C/da /x/"},
		{name: "arg after env", text: "ENV D=other\nARG D=dir\nCOPY $D/?a /x/", classic: &difference{reads: "other/oa"}},
		{name: "arg below an env with the same value", text: "ENV D=dir\nARG D=dir\nCOPY $D/da /x"},
		{name: "arg of the base stage set anew", text: "ARG D=dir\nCOPY b /1\nFROM {{part}} AS {{more}}\nARG D=other\nCOPY ${D}/oa /2/"},
		{name: "onbuild of an image nobody builds from", text: "ONBUILD COPY a /x\nCOPY b /x"},
		{name: "here-document", text: "COPY <<EOF b /x/\nCOPY dir /no\nEOF", since: 23, classic: ignores},
		{name: "exclude", text: "COPY --exclude=sub --exclude=db dir /x", since: 29, classic: ignores},
		{name: "exclude with an exception", text: "COPY --exclude=** --exclude=!sub/sa dir /x", since: 29, classic: ignores},
		{name: "exclude of a named file", text: "COPY --exclude=a a /x", since: 29, classic: ignores},
		{name: "parents", text: "COPY --parents dir/*/sa /x/", since: 29, classic: ignores},
		{name: "parents at any depth", text: "COPY --parents **/*a /x/", since: 29, classic: ignores},
		{name: "parents with a pivot", text: "COPY --parents dir/./sub /x/", since: 29, classic: ignores},
		{name: "parents with exclude", text: "COPY --parents --exclude=dir/sub dir /x/", since: 29, classic: ignores},
		{name: "stage whose base needs it", text: "COPY a /1\nFROM {{part}} AS {{more}}\nCOPY b /2"},
		{name: "arg of the base stage", text: "ARG D=dir\nCOPY b /1\nFROM {{part}} AS {{more}}\nCOPY ${D}/?a /2/", classic: refuses},
	}},
	{name: "platform", platform: "linux/amd64", files: small, parts: []part{
		{name: "platform", text: "ARG TARGETARCH\nCOPY bin/$TARGETARCH /x/", classic: &difference{reads: "bin/amd64 bin/arm64"}},
	}},
	{name: "escape directive", head: "# escape=`\n", files: small, parts: []part{{name: "escape", text: "COPY a `\n b /x/"}}},
	{name: "mounts", files: small, parts: []part{
		mount("bind mount", "--mount=type=bind,source=dir/sub,target=/m"),
		mount("bind mount takes no pattern", "--mount=source=[x],target=/m"),
		mount("mounts of other kinds", "--mount=type=tmpfs,target=/t --mount=type=cache,target=/c --mount=source=b,target=/m"),
		{name: "bind mount of a file by a variable", from: "{{base}}", out: "/out", since: 23, classic: refuses,
			text: "ARG F=dir/da\nRUN --mount=source=$F,target=/m [\"/app\", \"/m\", \"/out/m\"]"},
	}},
	{name: "mount of everything", files: small, parts: []part{mount("bind mount without type and source", "--mount=target=/m")}},
	{name: "symbolic links", parts: []part{
		{name: "that is named", text: "COPY l /x/"},
		{name: "on the way", text: "COPY m/sub/sa /x/"},
		{name: "to a file through another", text: "COPY other/l /x"},
		{name: "that is found", text: "COPY dir /x"},
		{name: "that a glob finds", text: "COPY lnk* /x/"},
	}, files: []string{"l->dir", "m->dir", "n->dir", "other/l->../n/db", "dir/l->../b", "dir/gone->nowhere", "dir/out->/etc/passwd", "lnk->b",
		"a", "b", "dir/da", "dir/db", "dir/sub/sa", "dir/sub/.hidden", "alt/da", "alt/db", "alt/sub/sa"}},

	{name: "everything", files: small, parts: []part{{name: "everything", text: "COPY . /x"}}},
	ignoring("a name", "a\n"),
	ignoring("at any depth", "# c\n\n**/?a\n  /dir/sub/ \n"),
	ignoring("all but a list", "*\n!dir\ndir/db"),
	ignoring("with an exception inside what is ignored", "dir\n!dir/sub/sa\n"),
	{name: "ignoring with an exception by pattern", parts: []part{{name: "everything", text: "COPY . /x", classic: &difference{}}},
		files: append([]string{".dockerignore=**\n!**/sub/*\n"}, small...)},
	ignoring("by the last match", "!a\na\nb\n!b\n"),
	{name: "ignoring by a pattern skipped above and asked below",
		parts: []part{{name: "dir", text: "COPY dir /x", buildKit: &difference{reads: "dir/da dir/db"}}}, // of dir/sub/sa nothing, or the name alone
		files: append([]string{".dockerignore=dir/sub\n!dir/sub/sa\n**/sub\n"}, small...)},
	ignoring("the Dockerfile and the ignore file", "Dockerfile\n.dockerignore\n"),
	ignoring("everything", "*\n"),
	{name: "nothing of what is there", files: []string{".dockerignore=hidden/*\nb\n", "empty/", "hidden/f", "full/f", "a", "b"}, parts: []part{
		{name: "an empty directory", text: "COPY empty /x/"},
		{name: "an empty directory by a glob", text: "COPY emp* /x/"},
		{name: "an empty directory beside a file", text: "COPY empty a /x/"},
		{name: "a directory whose files are ignored", text: "COPY hidden /x/"},
		{name: "an ignored file by a glob beside another", text: "COPY a b* /x/"},
		{name: "a directory all of which is excluded", text: "COPY --exclude=* full /x/", since: 29, classic: ignores},
	}},
	{name: "both ignore files copied", at: "build/image.Dockerfile", files: []string{".dockerignore=dir/a\n", "build/image.Dockerfile.dockerignore=dir/b\n", "a", "dir/a", "dir/b"},
		parts: []part{{name: "everything", text: "COPY . /x", classic: &difference{reads: ".dockerignore a build/image.Dockerfile build/image.Dockerfile.dockerignore dir/b"}}}},
	{name: "both ignore files, one copied", at: "build/image.Dockerfile", files: []string{".dockerignore=dir/a\n", "build/image.Dockerfile.dockerignore=dir/b\nbuild\n", "a", "dir/a", "dir/b"},
		parts: []part{{name: "everything", text: "COPY . /x", classic: &difference{reads: ".dockerignore a build/image.Dockerfile build/image.Dockerfile.dockerignore dir/b"}}}},
	ignoring("the Dockerfile alone", "Dockerfile\n"),
	{name: "ignoring with the Dockerfile elsewhere", at: "build/image.Dockerfile", parts: []part{{name: "everything", text: "COPY . /x"}},
		files: append([]string{".dockerignore=build\ndir\n"}, small...)},
	{name: "ignoring by the Dockerfile's own file", at: "build/image.Dockerfile",
		parts: []part{{name: "dir", text: "COPY dir /x", classic: &difference{reads: "dir/db"}}},
		files: append([]string{".dockerignore=dir/da\ndir/sub\n", "build/image.Dockerfile.dockerignore=dir/db\n"}, small...)},
}

// mount is a stage in which a program copies what a mount shows it.
func mount(name, flags string) part {
	return part{name: name, from: "{{base}}", out: "/out", text: "RUN " + flags + ` ["/app", "/m", "/out/m"]`, classic: refuses}
}

func ignoring(name, rules string) buildCase {
	return buildCase{name: "ignoring " + name, parts: []part{{name: "everything", text: "COPY . /x"}}, files: append([]string{".dockerignore=" + rules}, small...)}
}
