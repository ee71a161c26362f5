package imagehash

import "testing"

func TestFinalStageTakesItsTreeFromTheContext(t *testing.T) {
	const dockerfile = `# syntax=docker/dockerfile:1
ARG GO=golang:1.26
FROM ${GO} AS build
COPY server/ server/
RUN go build -o /out/ctis-server ./server
FROM scratch
LABEL io.ctis.protocol="1"
# the tree
COPY --from=build --chown=65532:65532 /out/ /
USER 65532:65532
HEALTHCHECK --interval=2s \
    CMD ["/ctis-server", "health"]
ENTRYPOINT ["/ctis-server"]
`
	const want = `FROM scratch
LABEL io.ctis.protocol="1"
COPY --chown=65532:65532 out/ /
USER 65532:65532
HEALTHCHECK --interval=2s     CMD ["/ctis-server", "health"]
ENTRYPOINT ["/ctis-server"]
`
	got, err := finalStage([]byte(dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("final stage = %q\n       want %q", got, want)
	}
}

func TestFinalStageOfAnotherFormIsLeftAlone(t *testing.T) {
	const build = "FROM golang AS build\nRUN true\n"
	for name, stage := range map[string]string{
		"not scratch":       "FROM alpine\nCOPY --from=build /out/ /\n",
		"runs something":    "FROM scratch\nCOPY --from=build /out/ /\nRUN true\n",
		"copies elsewhere":  "FROM scratch\nCOPY --from=build /etc/passwd /\n",
		"climbs out":        "FROM scratch\nCOPY --from=build /out/../etc/passwd /\n",
		"copies a context":  "FROM scratch\nCOPY server /\n",
		"adds":              "FROM scratch\nADD a /\nCOPY --from=build /out/ /\n",
		"uses a variable":   "FROM scratch\nCOPY --from=build /out/$X /\n",
		"declares one":      "FROM scratch\nARG X\nCOPY --from=build /out/ /\n",
		"copies nothing":    "FROM scratch\nUSER 1\n",
		"excludes":          "FROM scratch\nCOPY --from=build --exclude=x /out/ /\n",
		"is for a platform": "FROM --platform=linux/arm64 scratch\nCOPY --from=build /out/ /\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := finalStage([]byte(build + stage)); err == nil {
				t.Errorf("final stage = %q, want it refused", got)
			}
		})
	}
}
