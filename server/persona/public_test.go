package persona

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
)

// form makes a multipart body; each part is a Content-Disposition and content.
func form(t *testing.T, parts ...[2]string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, p := range parts {
		w, err := m.CreatePart(textproto.MIMEHeader{"Content-Disposition": {p[0]}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, p[1])
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return "Content-Type: " + m.FormDataContentType(), b.String()
}

func TestRawUploadsBecomeFiles(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{"PUT", "POST"} {
		rec := w.do(method, "/public/dir/notes%20"+method+".txt", "some text", "Content-Type: application/x-whatever")
		expect(t, rec, 201)
		want := uploaded{"dir/notes " + method + ".txt", "https://filebin.net/public/dir/notes%20" + method + ".txt", 9, sum("some text")}
		if got := decodeAs[[]uploaded](t, rec); len(got) != 1 || got[0] != want {
			t.Errorf("%s: answer %+v", method, got)
		}
		rec = w.do("GET", "/public/dir/notes%20"+method+".txt", "")
		expect(t, rec, 200, "some text")
		if ct := rec.Header().Get("Content-Type"); ct != "text/plain" {
			t.Errorf("%s: type %q", method, ct)
		}
	}
	expect(t, w.do("PUT", "/public/dir/notes%20PUT.txt", "other"), 201)
	expect(t, w.do("GET", "/public/dir/notes%20PUT.txt", ""), 200, "other")
	expect(t, w.do("PUT", "/public/dir/", "x"), 409)
	expect(t, w.do("PUT", "/public//x", "x"), 400)
	expect(t, w.do("PUT", "/public/a//x", "x"), 400)
	expect(t, w.do("GET", "/public/none", ""), 404)
}

func TestAPostWithoutANameGetsOne(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/public", "/public/", "/public/dir/"} {
		got := decodeAs[[]uploaded](t, w.do("POST", target, "body"))
		if len(got) != 1 || len(got[0].Name) < 16 {
			t.Fatalf("%s: %+v", target, got)
		}
		expect(t, w.do("GET", "/public/"+got[0].Name, ""), 200, "body")
	}
}

func TestFormFilesAreStoredUnderTheirNames(t *testing.T) {
	w := newWorld(t)
	tests := []struct{ disposition, name string }{
		{`form-data; name="f"; filename="plain.txt"`, "plain.txt"},
		{`form-data; name="f"; filename="/etc/passwd"`, "passwd"},
		{`form-data; name="f"; filename="../../up.txt"`, "up.txt"},
		{`form-data; name="f"; filename="C:\\Users\\me\\doc.pdf"`, "doc.pdf"},
		{`form-data; name="f"; filename="ünï 😀.txt"`, "ünï 😀.txt"},
		{`form-data; name="f"; filename*=UTF-8''na%C3%AFve.txt`, "naïve.txt"},
		{`form-data; name="f"; filename="qu\"ote.txt"`, `qu"ote.txt`},
		{`form-data; name="f"; filename="%2e%2e"`, "%2e%2e"},
		{`attachment; filename="other.bin"`, "other.bin"},
		{`form-data; name="f"; filename=".."`, ""},
		{`form-data; name="f"; filename="."`, ""},
		{`form-data; name="f"; filename="dir/"`, ""},
		{`form-data; name="f"; filename=""`, ""},
		{`form-data; name="f"; filename="broken`, ""},
	}
	for _, tt := range tests {
		contentType, body := form(t, [2]string{`form-data; name="comment"`, "not a file"}, [2]string{tt.disposition, "content of it"})
		rec := w.do("POST", "/public", body, contentType)
		if rec.Code != 201 {
			t.Errorf("%s: %d", tt.disposition, rec.Code)
			continue
		}
		got := decodeAs[[]uploaded](t, rec)
		if len(got) != 1 || tt.name != "" && got[0].Name != tt.name || tt.name == "" && len(got[0].Name) < 16 || got[0].SHA256 != sum("content of it") {
			t.Errorf("%s: answer %+v, want name %q", tt.disposition, got, tt.name)
			continue
		}
		u, err := url.Parse(got[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, w.do("GET", u.EscapedPath(), ""), 200, "content of it")
	}
}

func TestOneFormCarriesManyFiles(t *testing.T) {
	w := newWorld(t)
	contentType, body := form(t,
		[2]string{`form-data; name="a"; filename="a.txt"`, "first"},
		[2]string{`form-data; name="b"; filename=""`, ""}, // an input nobody chose a file for
		[2]string{`form-data; name="c"; filename="c.txt"`, strings.Repeat("third", 50<<10)},
		[2]string{`form-data; name="d"; filename="a.txt"`, "again"},
		[2]string{`form-data; name="e"; filename="empty.txt"`, ""},
	)
	got := decodeAs[[]uploaded](t, w.do("POST", "/public/in/", body, contentType))
	var names []string
	for _, g := range got {
		names = append(names, g.Name)
	}
	if fmt.Sprint(names) != "[in/a.txt in/c.txt in/a.txt in/empty.txt]" {
		t.Errorf("stored %v", names)
	}
	expect(t, w.do("GET", "/public/in/a.txt", ""), 200, "again")
	expect(t, w.do("GET", "/public/in/c.txt", ""), 200, strings.Repeat("third", 50<<10))
	if n := len(w.onDisk()); n != 6 {
		t.Errorf("%d files on disk for three names", n)
	}
}

func TestAFormThatCannotBeReadStoresNothing(t *testing.T) {
	w := newWorld(t)
	contentType, body := form(t, [2]string{`form-data; name="a"; filename="a.txt"`, "first"}, [2]string{`form-data; name="b"; filename="b.txt"`, "second"})
	many := make([][2]string, maxParts+1)
	for i := range many {
		many[i] = [2]string{`form-data; name="x"; filename="x"`, "x"}
	}
	manyType, manyBody := form(t, many...)
	fieldType, fieldBody := form(t, [2]string{`form-data; name="comment"`, "text"})
	for name, in := range map[string][2]string{
		"cut off":      {contentType, body[:len(body)-20]},
		"cut in part":  {contentType, body[:len(body)/2]},
		"no boundary":  {"Content-Type: multipart/form-data", body},
		"other one":    {"Content-Type: multipart/form-data; boundary=x", body},
		"empty":        {contentType, ""},
		"no file":      {fieldType, fieldBody},
		"far too many": {manyType, manyBody},
	} {
		rec := w.do("POST", "/public", in[1], in[0])
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), "nginx/1.22.1") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if left := w.onDisk(); len(left) != 0 {
			t.Errorf("%s: left on disk %v", name, left)
		}
	}
}

func FuzzFormFileNames(f *testing.F) {
	for _, s := range []string{
		`form-data; name="f"; filename="a/b"`, `form-data; filename*=UTF-8''%2e%2e%2f`, `form-data; filename=..`, `x`, ``, `form-data; filename="`, "form-data; filename=\"a\x00b\"", `form-data; filename="\\..\\"`, `form-data; filename*0="a"; filename*1="/../b"`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, disposition string) {
		name, _ := fileName(disposition)
		if name != "" && (!validName(name) || strings.ContainsAny(name, "/\\\x00") || name == "." || name == "..") {
			t.Errorf("%q gives the name %q", disposition, name)
		}
	})
}

func TestDirectoriesShowWhatIsInThem(t *testing.T) {
	w := newWorld(t)
	rec := w.do("GET", "/public/", "")
	expect(t, rec, 200)
	if !strings.Contains(rec.Body.String(), "Index of /public/") {
		t.Errorf("%s", rec.Body)
	}
	for _, name := range []string{"b.txt", "a.txt", "dir/x", "dir/y", "dir/deep/z", "<b>.txt"} {
		w.do("PUT", "/public/"+url.PathEscape(name), "12345")
	}
	body := w.do("GET", "/public/", "").Body.String()
	at := -1
	for _, want := range []string{`<a href="dir/">dir/</a>`, `<a href="%3Cb%3E.txt">&lt;b&gt;.txt</a>`, `<a href="a.txt">a.txt</a>`, `<a href="b.txt">b.txt</a>`} {
		i := strings.Index(body, want)
		if i <= at {
			t.Errorf("%s is missing or out of order:\n%s", want, body)
		}
		at = i
	}
	if strings.Count(body, "dir/</a>") != 1 || strings.Contains(body, "deep") || !strings.Contains(body, "29-Nov-2026 17:00") {
		t.Errorf("%s", body)
	}
	if body := w.do("GET", "/public/dir/", "").Body.String(); !strings.Contains(body, `<a href="x">x</a>`) || !strings.Contains(body, `<a href="deep/">`) {
		t.Errorf("%s", body)
	}
	expect(t, w.do("GET", "/public/none/", ""), 404)

	for path, want := range map[string]string{
		"/public":         "https://filebin.net/public/",
		"/public/dir":     "https://filebin.net/public/dir/",
		"/public/dir?a=b": "https://filebin.net/public/dir/?a=b",
	} {
		rec := w.do("GET", path, "")
		if rec.Code != 301 || rec.Header().Get("Location") != want || !strings.Contains(rec.Body.String(), "301 Moved Permanently") {
			t.Errorf("%s: %d to %q", path, rec.Code, rec.Header().Get("Location"))
		}
	}
}
