{{- define "evertally.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "evertally.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "evertally.labels" -}}
{{ include "evertally.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "evertally.passphraseSecret" -}}
{{- if .Values.passphrase.existingSecret -}}
{{- .Values.passphrase.existingSecret -}}
{{- else if .Values.passphrase.value -}}
{{- include "evertally.name" . }}-passphrase
{{- else -}}
{{- fail "give passphrase.existingSecret, the name of a Secret with the entry `passphrase`, or passphrase.value" -}}
{{- end -}}
{{- end -}}
