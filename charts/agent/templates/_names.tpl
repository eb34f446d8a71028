{{- define "roundhouse-agent.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- /* What never changes: the selector of a Deployment is immutable. */}}
{{- define "roundhouse-agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "roundhouse-agent.labels" -}}
{{ include "roundhouse-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/part-of: roundhouse
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
