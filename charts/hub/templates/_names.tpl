{{- define "roundhouse-hub.name" -}}
{{ .Values.nameOverride | default .Release.Name }}
{{- end }}

{{- /* What never changes: the selector of a Deployment is immutable. */}}
{{- define "roundhouse-hub.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "roundhouse-hub.labels" -}}
{{ include "roundhouse-hub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: hub
app.kubernetes.io/part-of: roundhouse
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
