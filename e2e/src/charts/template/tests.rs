use super::*;
use serde_json::json;

fn root() -> Value {
    json!({
        "Values": {
            "name": "web", "empty": "", "no": false, "count": 3, "seconds": 2_592_000,
            "list": ["a", "b"], "items": [{"key": "x"}, {"key": "y"}], "none": [],
            "map": {"b": {"c": [1, {"d": "on", "e": null}]}, "a": "x: y"},
        },
        "Release": {"Name": "r"},
        "Chart": {"Name": "c"},
    })
}

fn render(text: &str) -> Result<String> {
    let mut templates = Templates::default();
    templates.add(
        "_defined",
        "{{- define \"own.name\" -}}\n{{ .Chart.Name }}\n{{- end }}",
    )?;
    templates.add("file", text)?;
    let mut files = templates.render(&root())?;
    assert_eq!(files.len(), 1, "files that only define are not rendered");
    Ok(files.remove("file").unwrap_or_default())
}

#[test]
fn templates_of_the_subset_print_what_helm_prints() {
    for (template, expected) in [
        ("plain }} text", "plain }} text"),
        ("a {{ .Values.name }} b", "a web b"),
        ("a \n {{- .Values.name -}} \n b", "awebb"),
        ("a \n {{- /* gone }} */ -}} \n b", "ab"),
        ("a\n{{- /* over\ntwo lines */}}\nb", "a\nb"),
        ("{{ .Values.empty | default .Release.Name }}", "r"),
        ("{{ default \"d\" .Values.no }}", "d"),
        ("{{ .Values.count | quote }} {{ .Values.no }}", "\"3\" false"),
        ("{{ \"}} \\\" {{\" | quote }}", "\"}} \\\" {{\""),
        ("{{ toYaml .Values.seconds }}", "2592000"),
        ("{{ if .Values.no }}yes{{ else }}no{{ end }}", "no"),
        (
            "{{ if .Values.missing }}yes{{ else }}{{ if .Values.count }}3{{ end }}{{ end }}",
            "3",
        ),
        ("{{ with .Values.map }}{{ .a }}{{ else }}-{{ end }}", "x: y"),
        (
            "{{ with .Values.none }}x{{ else }}{{ .Values.name }}{{ end }}",
            "web",
        ),
        ("{{- range .Values.list }}\n- {{ . }}\n{{- end }}", "\n- a\n- b"),
        ("{{ range .Values.items }}{{ .key }}{{ end }}", "xy"),
        ("{{ range .Values.none }}x{{ else }}none{{ end }}", "none"),
        ("[{{ include \"own.name\" . }}]", "[c]"),
        ("{{ include \"own.name\" (.) | quote }}", "\"c\""),
        ("x:{{ \"a\\n\\nb\" | nindent 2 }}", "x:\n  a\n  \n  b"),
        (
            "m:{{ toYaml .Values.map | nindent 2 }}",
            "m:\n  a: \"x: y\"\n  b:\n    c:\n    - 1\n    - d: \"on\"\n      e: null",
        ),
    ] {
        assert_eq!(render(template).unwrap(), expected, "{template}");
    }
}

#[test]
fn what_is_not_of_the_subset_is_refused_with_its_place() {
    for (template, expected) in [
        (
            "\n\n{{ .Values.name | upper }}",
            "file:3: upper is not of the subset",
        ),
        ("{{ $x := 1 }}", "file:1: '$' is not of the subset"),
        (
            "{{ if eq .Values.name \"web\" }}{{ end }}",
            "file:1: eq is not of the subset",
        ),
        ("{{ lookup \"v1\" \"Secret\" }}", "lookup is not of the subset"),
        (
            "{{ range $k, $v := .Values.map }}{{ end }}",
            "'$' is not of the subset",
        ),
        ("{{ .Values.name", "file:1: the action does not end"),
        ("{{ /* no end }}", "file:1: the action does not end"),
        ("\n{{ if .Values.name }}", "file:2: what begins here does not end"),
        ("{{ end }}", "file:1: end ends nothing"),
        ("{{ else }}", "else belongs to no if"),
        (
            "{{ if .Values.no }}{{ else if .Values.name }}{{ end }}",
            "else takes nothing",
        ),
        (
            "{{ if .Values.no }}{{ define \"x\" }}{{ end }}{{ end }}",
            "define stands outside",
        ),
        ("{{ (.Values.name }}", "a parenthesis is not closed"),
        ("{{ .Values.name | }}", "a value or a function is missing"),
        (
            "{{ .Values.name | .Release.Name }}",
            "what stands behind a pipe is a function",
        ),
        ("{{ .Values..name }}", "is no path"),
        ("{{ }}", "a value or a function is missing"),
        ("{{ include \"own.nane\" . }}", "\"own.nane\" is not defined"),
        ("{{ define \"own.name\" }}{{ end }}", "is defined twice"),
        ("{{ .Values.missing }}", "file:1: Helm prints <no value>"),
        (
            "{{ .Values.missing.more }}",
            "file:1: .Values.missing.more: there is nothing that could have more",
        ),
        (
            "{{ with .Values.map }}{{ .Values.name }}{{ end }}",
            "nothing that could have name",
        ),
        ("{{ .Values.map }}", "printed by toYaml"),
        ("{{ .Values.seconds }}", "Helm prints 2592000 with an exponent"),
        ("{{ .Values.seconds | quote }}", "with an exponent"),
        ("{{ range .Values.map }}{{ end }}", "range takes a list"),
        ("{{ nindent .Values.name 2 }}", "Nindent takes other arguments"),
    ] {
        let error = render(template).expect_err(template);
        let text = format!("{error:#}");
        assert!(text.contains(expected), "{template}: {text}");
    }
}

#[test]
fn the_values_that_are_used_are_known() {
    let mut templates = Templates::default();
    let text = "{{ if (.Values.a.b | default .Chart.Name) }}{{ include \"x\" (default .Values.c .Values.d) }}{{ end }}";
    templates.add("file", text).unwrap();
    assert_eq!(
        templates.values().into_iter().collect::<Vec<_>>(),
        ["a.b", "c", "d"]
    );
}
