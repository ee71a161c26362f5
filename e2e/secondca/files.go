package secondca

import (
	"archive/zip"
	"bytes"
	"fmt"
)

// Files are what programs of many kinds can be asked for at https://HOST/public/: a text,
// a repository for git, a revocation list for Java, a package for pip, an index of
// packages for cargo, a module for Go. By path below /public/.
func (a *Authority) Files(host string) (map[string][]byte, error) {
	crl, err := a.CRL()
	if err != nil {
		return nil, err
	}
	wheel, err := wheel()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"text.txt":                          []byte("trusted\n"),
		"repo.git/info/refs":                []byte("0123456789abcdef0123456789abcdef01234567\trefs/heads/main\n"),
		"list.crl":                          crl,
		"sample-1.0-py3-none-any.whl":       wheel,
		"index/config.json":                 fmt.Appendf(nil, `{"dl":"https://%[1]s/public/crates","api":"https://%[1]s/public"}`, host),
		"api/v1/crates":                     []byte(`{"crates":[{"name":"sample","max_version":"1.0.0","description":"trusted"}],"meta":{"total":1}}`),
		"example.com/sample/@v/list":        []byte("v1.0.0\n"),
		"example.com/sample/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
		"example.com/sample/@v/v1.0.0.mod":  []byte("module example.com/sample\n"),
	}, nil
}

// wheel is a package for Python.
func wheel() ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"sample.py", "value = 'trusted'\n"},
		{"sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n"},
		{"sample-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: sample\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"sample-1.0.dist-info/RECORD", ""},
	} {
		w, err := z.Create(f[0])
		if err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
