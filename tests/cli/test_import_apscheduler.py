"""`horae import apscheduler`: pickles are read as data, and none of them runs."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from horae.cli.imports.entries import NotBrought
from horae.cli.imports.pickled import Made, Named, as_json_value, read_pickled
from tests.cli.conftest import Command

# The column job_state of jobs that APScheduler 3.11.3 stored: Python's pickles of protocol 5.
STATES: dict[str, str] = {
    "both": (
        "fCZH^1ONa40001elqie`c4cyNX>V?nO96}mX=Id)1Y&P=Xq1cuW_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi7VQ_O}Xk}z|Y-MsT"
        "baH8DXJvA8E@N+PVrgz^ZfBH?2~ToVa%pF0Wpb30lqrFfeUvC@0ZRdl2y}93XJ=({bCg|_j3r@kb7N>_WOZz1axQdoX=i6;a&s<Y"
        "a&K-rLvn9!RB~x&XJvAfeUvC@0ZRgm2y|&}WqNOJWt5BvVs&Y3bZKsLl#B;wWprV5baIrFl#B>^Z*FC2Zf0+kj0jq9Ze>YsW^a^}"
        "l#B^qb#8EJV{2?>l!la2l#B;ObYm}7R6~?Y0fv-Pl#B{<bYXIIUu0o)Wt2{g2xV?$Uu0o)Wt2{g24-nxY-DqkU6d${AYpKGV`yb$"
        "b!=sFE_8BfXJ=({b1q|YZ*DGTX=Q9=bCiq;LSb`dMrmbiWR#PXDS?!Ilqie@ZeeX@l#B#<WnprZj0$OUUu0!wVRdYDl!%NAWq5FM"
        "Wpi_BZ*FsxU6hO^VQ_O}Xk}z|Y-MsTbaH8DXJvA8E@N_UZZ2hbaB^jHb7^mGbCiq?L2PVAcyMxMb8~5LZj_UhDS?!Il#B#(bY*aq"
        "PIF>mbz*2Cj0#O}ZgglyX=Q9=l#`Sxfs}oeC}<{(1#NF`bZC@lD2Qk&U6g1oDS?!IlxQ$cb7En2VrU_Z4@6;kPi9STZgglyX=Q9="
        "l#`Sxfs}oeC}<{(17u-&lxQf3XenKkXe}v$lzo(FFivw~VRd3?A&d!EWo2tdX=Q9=l#`Sxfs}oeC}<{(1b1a+Ym{gxh-fKYlxQs}"
        "fs}oeXfRH5VqtY+Xd#RaL}7VPW>;lpYes2hY-E&^lqrFfeUvC@CX5SYVR>I~W?y$@WowjZD2Qk&U6g1oDS?!IlxQ$cb7En2VrU~N"
        "fs}oeC}<{(1ZZz{a+GK&iD)TZlxQoA4^m-nXJtiraB^jHb7^mGl#`Sxfs}oeC}=QFj0I+Ca&vT)O96}oY+-YBluH41VqtY+Xd@|s"
        "lzo&aXeNvXZE0?GbY+xiD2Qk&U6g26DS?!IlqhI0PH0(60BBlE0Ci$vbz*2EDS?!IlqhH>j0SUMV{dL`lxQf3XenKkXjUnKlzo&a"
        "XfRG_SxW$DT1x<RVqtY+WsC-DX>@dDa+FSWhLmAwXHIouj0k0TWn*=8Z*r832V`YtVRdYDl#B#na%XdtDU1edcVTj8bCi9Qi~(Vk"
        "O969eCX57hX=7`Yj1p~Wb7pCBWnX7<VPj=qbZKp6luH4O2xD(yY-Mv}Wt51F4Q*j~UukZ0bYX5|Wpk8E0gMf9Wq5R7a&>NBbZKp6"
        "l#B>uVRU75X>Dbcj0j|5bY*mDZDo{`ltT&!>I)J9000000F-DPhLlp2buI"
    ),
    "bounded": (
        "fCZKN0RR910001elqie`c4cyNX>V?nO96}mX=Id)2V!q^Ze(R-l#B#sb#7ynj0j<Hb2@ZsV{4R*2Xu02XJ=({l#Cr=aC2j5Wn^`1"
        "WpXZba%pF0WpZ;aX>N37a&}>Cl#CBaZggdGc42H(a%pF0Wpb30lqrFfeUvC@0ZRgm2y|&}WqNOJWt5BvVs&Y3bZKsLl#B;wWprV5"
        "baIrFl#B>^Z*FC2Zf0+kj0jq9Ze>YsW^a^}l#B^qb#8EJV{2?>l!la2l#C5Ub#iZTWiLWya%^dCluH4Ilv0$83UhQ}a&%v0VRU7b"
        "j0j|5bY*mDZDo{<2xMV&Wprt6Wt5YYLkb7(0RaF200000lxP@+lv0$82xV?$Uu0o)Wt3<fLkb7)0RaF200000lxP@+lv0$82x)F~"
        "WpZ|5Y?Npkj0tpUZDnL-Y;<9ilaxyUO)LRR0Ed)Pl#B*yX>@dDa+FI0bz+PNWq4&{b#!lXl#B;tWoBV@Y;=^21YvS#bCfBJ25Wa="
        "a%XdteUyv=VU$Y&bBqLTVQpoUj0ALPV{4R*5^ZU7W@&O|UuSY*V`X1-X>DbcPK*d+Z((d@b7N(ciHr?xVR&C@ZgX^DZewM0luHAQ"
        "4Q^$4bYF6HZeMh1ZDo{b9775R?g0S+000f-Jd|h{hLlp2buI"
    ),
    "last": (
        "fCZHd1ONa40001elqie`c4cyNX>V?nO96}mX=Id)1Z-h*bd-z)W_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi2VQ_O}Xk}z|Y-MsT"
        "baH8DXJvA8E@N_UZj_7*Lvn9!RB~x&XJvAflawielzo&aXaP$Cj0kjTZDo3IZe^5=2x4_<Y;<XEbCiq+XJvF@baZl*la!1IdT(xJ"
        "X>Mk3l#B>kZ*FBtZf0+kla!1JUv+M9X=7__Wt4`LQk0AhMRjs-aAhw-WpZq3Zj?&_hLlp2j0$sfVRCd|WMOn=lunEYWo~3&WMOn="
        "lunEWW@%+?WOI~VlqifKVQ_O}Xk}z|Y-MsTbaH8DXJvA8E@N_UZZ2kNWo%?~l#B^NVRL0hX=Q9=l#`Sxfs}oeD2xPdVQpoUj0AaQ"
        "VRDp=3Tbm+WMyVyb!>E$h>QzmcyMxMb8~5LZgZ4fl#C@|aC2j5Wn^`1WpXZba%pF0WpZ;aV{&h9E@gOda%FRKX>V?Gl#C5QY-~k%"
        "aB^jHb7^mGl#`Sxfs}oej0AIZWpI>Eb7En2VrU(V3QccrbZACtWo%@Wlawielzo&aXd;XSZEtRLXq0Fqh-f8UlxQg_fs}oeXe>^1"
        "VqtY+XdR3XL}7VPW=(HybZACtWo%@Wlawielzo&aXd;XQWMO%fXe5bfC0&$gCyW?OVRLjuVR=txO>b^=XhnE%a%FRKX>V?nlawie"
        "lzo(FEKYM`VRd3?9gGQAWo2tdX=Q9=l#`Sxfs}oeC}<*#1b1a+Ym{gth-f8UlxQg_fs}oeXe>^1VqtY+XdR3WL}7VPW>;lpYes2h"
        "Y-E&^lqrFfeUvC@B8&@UVR>I~W?y$@WowjZB#3AwU6g1kDS?!IlxQqYb7En2VrU;Jfs}oeC}<*#1ZZz{a+GK!iD)HVlxQc64^m-n"
        "XJtiraB^jHb7^mGl#`Sxfs}oeC}=E80*nP_X>xOPluHO`14|NhVqtY+Xdfwolzo&aXd;XTZE0?GbY+xiB#3AwU6g24DS?!IlqhH{"
        "PH0z40B8eC0Ci$vbz*2ADS?!IlqhH-j0SUMV{dL`lxQS~XeC{gXjCbIlzo&aXe>@>S4#kB14{sPVqtY+WsC-DX>@dDa+FSWVvGo7"
        "cx7XCbZ>H$j0a?8W?^+~bd-z)VRC14lqrk`Yj<ICXLFQ&l#BskluH3~Xd;XRbZKL2l#CK>X>(?2a%Ep<a$#d-Uvz10Wt2++j0j_I"
        "VQgh{V`Y?xj16sJcwcF5b97;DV`X!cO96}xZe@6MUvhPBUvz10Wt5BvWMOn=bZKp6l#B>uVRU75X>DbclaxaW2kHwR2mk;8005L|"
        "7>1Nmlyxo"
    ),
    "morning": (
        "fCZHn1ONa40001elqie`c4cyNX>V?nO96}mX=Id)2W@Y1ZfS03l#B#sb#7ynj0j<Hb2@ZsV{4R*2Xu02XJ=({l#Cf+aC2j5Wn^`1"
        "WpXZba%pF0WpZ;aV{&h9l#B~Qa&K-_a%pF0Wpb30lqrFfeUvC@0ZRgm2y|&}WqNOJWt5BvVs&Y3bZKsLl#B;wWprV5baIrFl#B>^"
        "Z*FC2Zf0+kj0jq9Ze>YsW^a^}l#B^qb#8EJV{2?>l!la2l#C5Ub#iZTWiLWya%^dCluH4Ilv0$83UhQ}a&%v0VRU7bPK*d;Ze(9%"
        "VRU7bPK*X-X=Q9=bCg|_D2yOsaC2j5Wn^`1WpXZba%pF0WpZ;aV{&h9E@o+EY-Dqkj0r+vb7e+pWo%@Wlawielzo&aj0A3BZDo{<"
        "1bJm)a+Hh;X>(s>WoBV@Y;=@}j0<IWaB^jHb7^mGbCg|_j3r@kb7N>_WOZz1axQdoX=i6;a&s<Ya&K-fWq5FMWpi_BZ*Fsxj156-"
        "Y(;o*a%FRKX>V?nlawielzo(p1aov{aFkASVqtY+XdR3SO>b^=XhvyeY-E&^lqrFfeUvC@B8&xXZ*FvGlxQS~XeC{gXelXylzo(F"
        "EKYM`VRd3?9gGh|VR=txO>b^=XhvyeY-E&^lqrFfeUvC@B8&rMVR@8jB#3AwU6g1kDS?!IlxQqYb7En2VrU(V30GxhYes2hY-E&^"
        "lqrFfeUvC@B8&ugWo2uWXe5YeC0&$gDJg-JeUxY{PIF>mbz*28j1EL$c~53nWo2tdX=Q9=l#`Sxfs}oeC}<*#3uIw=UvFk#cV%U3"
        "lxQT0XeC{gXeW#oS7l{uWMO$yVQyz-MR;&>Wpi_BZ*G*6lqrFfeUvC@EKZCCW@&PBbd*Z~j09|9b99tT1a)Fzbz*2ADS?!IlqhH-"
        "j09+Jb#jzwB#CGxU6g1ij1N*_Zf9jhcyMxMb8~5LZj_UhDS?!IlqhH{PH0a{2WU`B2X$g$bz*2ADS?!IlqhH-j0SCKZgq5JlxQT0"
        "XeC{gXjUnKlzo&aXe>@>PfH$XP)i<lVqtY+Xdfwolzo&aXd;XTb7f<1Ze)~bB#3AwU6g26DS?!IlqhH{PH0a{0BBH40Ci$vbz)_V"
        "25M<^bY*gsPIY382xWL>V|8?Ia+Hh*WMyVyb!>E$j09nFXLFQG0fm%|25Wa=a%XdteUxY-j0ALPV{4R*5^ZU7W@&O|UuSY*V`X1-"
        "X>DbcO96}sV{c(>WpiU?l!%NCZDDv{X>N0LVQyn(bCgQ~j16vOcywQKb#7mDX>Dbcj0j|5bY*mDZDo{<2xMV&Wprt6Wt5YYLkb7#"
        "3law&00000lxP@+lv0#+E&"
    ),
    "once": (
        "fCZI$0RR910001elqie`c4cyNX>V?nO96}mX=Id)1aEF*Wt5BrW_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi2VQ_O}Xk}z|Y-MsT"
        "baH8DXJvA8E@WYJWt5ByL}7GgRB~x&XJvAflawielzo&aXaP$Bj0kddZeL_!bY+x`2xMV&Wprt6Wt5BvWMOn=bZKp6l#`T03J3TB"
        "0RR910001#Xbp@AbZKp6dT(xJl#`Tb4U7qNX>Da>Wo&d|l#`T8080Q%0Ed)Pl!cU1l!la2lyzc^2xWL>V|8?Ia+Hh*WMyVyb!>E$"
        "j09nFXLFP(j0S6WVRC14lzo(p0b!JA4?_wE_yGX`000000F-DFXcS8TO&}ag0Ed)Pl!cU1l!la2lyi&(ZeeX@l#B#)X=7`Yj1p~W"
        "b7pCBWnX7<VPj=qbZKp6luH4O2xD(yY-Mv}Wt51F4Q*j~UukZ0bYX5|Wpk8E0gMf9Wq5R7a&>NBbZKp6lxP}tE&"
    ),
    "paused": (
        "fCZJ~0{{R30001elqie`c4cyNX>V?nO96}mX=Id)25@0@b7f?dj09$NZex^;2w`w@I&^7cYm|%!baH8DXJvAfj2U5Yb7N>_WOZz1"
        "axQdoX=i6;a&s<Ya&K;wj0;0@Z*Ej_X=i6;a+H&lDS?!IlqhHcO9G4tbZKp6dT(xJl#B>sb!lvLX>N0rj0b0BbYXOKa+H&lj0k#f"
        "Ze?k1W^a^?2wHD$Wl3&kZ<Ldij0s<LZg6R1YiwndhLlp2j15I~a&K^DFG6K<Y-w(kO96(IQk0Aeb97;HbYEm)bY+xIj0k0JWM5=q"
        "bY+xIj0R?DWo%?~lwFi4j38lfb7N>_WOZz1axQdoX=i6;a&s<Ya&K-fW@%+?WOI~^2|{6WWkzXbY-E&^lqrFfeUvDS1a4t%Wt5Br"
        "d1Ya8l#B{#b6;d-W?^+~bd-pU3uSn4a%FRKX>V?GlwFjJC1G%LV`yb$b!=sFE_8BfXJ=({b1q|YZ*DGScyMxMb8~5LZgZ534MA*d"
        "MR;&>Wpi_BZ*G*6lqrFfeUyv@b97~JlumPEVRd3?9gGT1Z*FvGMrmbiWR#PXDS?!IlqhH-j0J6PZggmrXe5YeC0&$gDJg-JeUxY{"
        "PIF>mbz*28j1NR%c~53dZ*FvGMrmbiWR#PXDS?!IlqhH-j00q0d6Z}*h-f8UlxQg_fs}oeXe>^1VqtY+XdR3RS7l{uMrmbiWR#PX"
        "DS?!IlqhH-j0AUOWowjZB#3AwU6g1kDS?!IlxQqYb7En2VrU(V4n$#jPi9wTWot%hWo%@Wlawielzo&aXd;XYWMO$<Z)RV2Wo2uW"
        "Xe5YeC0&$gDJg-JeUxY{PIF>mbz*2ADS?!IlqhH-j09+Jb#jzwB#CGxU6g1ij1N*_Zf9jhcyMxMb8~5LZj_UhDS?!IlqhH{PK*U+"
        "X>xOPluH4O1Z-h*bd*a0bz)(4VrU;Jfs}oeC}<*#25o6>b#!HvXe5YeC0&$gQYnFyeUvC@EKX=uO8{tAO8|9ZVRd3?A1Q&9eUvC@"
        "B8&!eWn*t{WRz$mh-f8UlxR{Zfs}oeC}=EBXjMx9XjV%Abz)(4Vr7g5YH4(IWpb2Gbz+PNWq4&{b#!lXl#B;tWoBV@Y;=^21YvS#"
        "bCfBJ25Wa=a%XdteUvDS0b!I&0gM4+lwFi4O96e9i~)F*O94v)hLm$<b!Z}t1axU*Ym|%<ZE166X>w&>XL4a<WnXk@ZDo{80gMP^"
        "Z((d@b7N(ch>Q(wVR&C@ZgX^DZewM0luH4O4Q^$4bYF6HZeMh1ZDo{BbuI"
    ),
    "second": (
        "fCZH(1ONa40001elqie`c4cyNX>V?nO96}mX=Id)26JU&Z*F9ij09$NZex^;2w`w@I&^7cYm|%!baH8DXJvAfj2U5Yb7N>_WOZz1"
        "axQdoX=i6;a&s<Ya&K;wj0;0@Z*Ej_X=i6;a+H&lDS?!IlqhHcO9G4tbZKp6dT(xJl#B>sb!lvLX>N0rj0b0BbYXOKa+H&lj0k#f"
        "Ze?k1W^a^?2wHD$Wl3&kZ<Ldij0s<LZg6R1YiwndhLlp2j15I~a&K^DFG6K<Y-w(kO96(IQk0Aeb97;HbYEm)bY+xIj0k0JWM5=q"
        "bY+xIj0R?DWo%?~lwFi4j38lfb7N>_WOZz1axQdoX=i6;a&s<Ya&K-fW@%+?WOI~^2|{6WWkzXbY-E&^lqrFfeUvDS1a4t%Wt5Br"
        "d1Ya8l#B{#b6;d-W?^+~bd-pU3uSn4a%FRKX>V?GlwFjJC1G%LV`yb$b!=sFE_8BfXJ=({b1q|YZ*DGScyMxMb8~5LZgZ534MA*d"
        "MR;&>Wpi_BZ*G*6lqrFfeUyv@b97~JlumPEVRd3?9gGT1Z*FvGMrmbiWR#PXDS?!IlqhH-j0J6PZggmrXe5YeC0&$gDJg-JeUxY{"
        "PIF>mbz*28j1NR%c~53dZ*FvGMrmbiWR#PXDS?!IlqhH-j00q0d6Z}*iD)HVlxQc68CPXxYh+=0P;YZ-bZKvHMR;&>Wpi_BZ*G*6"
        "lqrFfeUvC@EKZCHZ*X*JZ*E_1b#0VO0gMNCWo2t*VR@8G0d-<wbz*28j0sm|Wot%hWo%@Wlawielzo&aXd;XRcV%U3lxQS~XeC{g"
        "XelXylzo(FEKYM`VRd3?9gGe{VR=txS7l{uMrmbiWR#PXDS?!IlqhH-j0<F8d0%g4Uw36?Ym{gth-f8UlxQg_fs}oeXe>^1VqtY+"
        "Xdfwolzo&aXd;XRXm53LlxQS~XeC{gXeW#hQekdqWkq;!a%FRKX>V?nlawielzo&aXe>^Q1!ie-b99tT0E`4|VRLkpO8|9ZVRd3?"
        "A1Q&9eUvC@B8&!YX>N6NWt3<nh-f8UlxS8dfs}oeC}=EBXjw}DXj)4Ebz)(4VrU;Jfs}oeC}<*R185|OXeC{gXjUnKlzo&aXe>@>"
        "SxW$DT1x<RVqtY+WsC-DX>@dDa+FSWVvGo7cx7XCbZ>H$j0a?8W?^+~bd-z)VRC14lqrk`Yj<ICXLFQ&l#BskluH3~Xd;XRbZKL2"
        "l#CK>X>(?2a%Ep<a$#d-Uvz10Wt2++j0j_IVQgh{V`Y?xj16sJcwcF5b97;DV`X!cO96}xZe@6MUvhPBUvz10Wt5BvWMOn=bZKp6"
        "l#B>uVRU75X>DbclaxaW2kHz600000005L|7>1Nmlyxo"
    ),
    "secs": (
        "fCZJ40{{R30001elqie`c4cyNX>V?nO96}mX=Id)1aoC$bCiq(W_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi2VQ_O}Xk}z|Y-MsT"
        "baH8DXJvA8E@N_UZj_7*Lvn9!RB~x&XJvAflawielzo&aXaP$Cj0kjTZDo3IZe^5=2xMV&Wprt6Wt5BvbZKp6dT(xJl#`Tb4U7qN"
        "X>Da>Wo&d|l#`T8080Q%0Ed)Pl!cU1l#B{<bYXIIUu0o)Wt2{g2xV?$Uu0o)Wt2{g24-nxY-DqkU6d${AYpKGV`yb$b!=sFE_8Bf"
        "XJ=({b1q|YZ*DGTX=Q9=bCiq;LSb`dMrmbiWR#PXDS?!Ilqie@ZeeX@l#B#<WnprZj0$OUUu0!wVRdYDl!%NAWq5FMWpi_BZ*Fsx"
        "U6hO^VQ_O}Xk}z|Y-MsTbaH8DXJvA8E@N_UZZ2hbaB^jHb7^mGbCiq?L2PVAcyMxMb8~5LZj_UhDS?!Il#B#(bY*aqPIF>mbz*25"
        "j0#O}ZgglyX=Q9=l#`Sxfs}oeC}<yy1#NF`bZC@lA&6)qU6g1hDS?!IlxQhVb7En2VrUwS4@6;kPi9STZgglyX=Q9=l#`Sxfs}oe"
        "C}<yy17u-&lxQJ{Xd+#dXeKFvlzo(FDNb`@VRd3?8jJ~7Wo2tdX=Q9=l#`Sxfs}oeC}<yy1b1a+Ym{gqh-e~RlxQX?fs}oeXemx}"
        "VqtY+Xc~+TL}7VPW>;lpYes2hY-E&^lqrFfeUvC@AB+oRVR>I~W?y$@WowjZA&6)qU6g1hDS?!IlxQhVb7En2VrU#Gfs}oeC}<yy"
        "1ZZz{a+GKxh-e~RlxQX?fs}oeXemx}VqtY+XdEellzo&aXdjFQZE0?GbY+xiA&6)qU6g1hDS?!IlxQhVb7En2VrU#Gfs}oeC}<yy"
        "26JU&Z*F9iXd#JcB3+bdCMkiGeUxY^OA2#hVRd3<j0S3HbaZ8MluHG5VvGo7cx7XCbZ>H$j0a?8W?^+~bd-z)VRC14lqrk`Yj<IC"
        "XLFQ&l#BskluH3~XdjFObZKL2l#CK>X>(?2a%Ep<a$#d-Uvz10Wt2++j0j_IVQgh{V`Y?xj16sJcwcF5b97;DV`X!cO96}xZe@6M"
        "UvhPBUvz10Wt3<Qj0j|5bY*mDZDo{`ltT&!>I)GS9}Nj$>6B;{hLlp2buI"
    ),
    "week": (
        "fCZKJ0{{R30001elqie`c4cyNX>V?nO96}mX=Id)1b1a+Ym|%xW_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi2VQ_O}Xk}z|Y-MsT"
        "baH8DXJvA8E@N_UZj_7*Lvn9!RB~x&XJvAflawielzo&aXaP$Cj0kjTZDo3IZe^5=2x4_<Y;<XEbCiq+XJvF@baZl*la!1IdT(xJ"
        "X>Mk3l#B>kZ*FBtZf0+kla!1JUv+M9X=7__Wt4`LQk0AhMRjs-aAhw-WpZq3Zj?&_hLlp2j0$sfVRCd|WMOn=lunEYWo~3&WMOn="
        "lunEWW@%+?WOI~VlqifKVQ_O}Xk}z|Y-MsTbaH8DXJvA8E@N_UZZ2kNWo%?~l#B^NVRL0hX=Q9=l#`Sxfs}oeD2xPdVQpoUj0AaQ"
        "VRDp=3Tbm+WMyVyb!>E$h>QzmcyMxMb8~5LZgZ4fl#C@|aC2j5Wn^`1WpXZba%pF0WpZ;aV{&h9E@gOda%FRKX>V?Gl#C5QY-~k%"
        "aB^jHb7^mGl#`Sxfs}oej0AIZWpI>Eb7En2VrU(V3QccrbZACtWo%@Wlawielzo&aXd;XSZEtRLXq0Fqh-f8UlxQg_fs}oeXe>^1"
        "VqtY+XdR3XL}7VPW=(HybZACtWo%@Wlawielzo&aXd;XQWMO%fXe5YeC0&$gDJg-JeUxY{PIF>mbz*28j0sm|Wot%hWo%@Wlawie"
        "lzo&aXd-9>Xe5bfC0&$gCyWnLVQyz-MR;&>Wpi_BZ*G*6lqrFfeUvC@EKZCCW@&PBbd*a9j09|9b99tT3Uy*(bz*28j1EL$c~53n"
        "Wo2tdX=Q9=l#`Sxfs}oeC}<*#3uIw=UvFk#cV%U3lxQS~XeC{gXelXylzo(FEKYM`VRd3?A1Q&9eUvC@B8&uRZ*_8%Xe5YeC0&$g"
        "Ln(ojeUvC@EKX=fO8{s`O8|9ZVRd3?A1Q&9eUvC@B8&!YX>N6NWt3<nh-f8UlxRaKfs}oeC}=EBXhur_Xh%x`bz)(4VrU;Jfs}oe"
        "C}<*#26JU&Z*F9iXe5YeC0&$gLn(ojeUvC@EKX=fO8{s`O8|9ZVRd3<j0S3HbaZ8MlumVGj0k0TWn*=8Z*r832V`YtVRdYDl#B#n"
        "a%XdtDU1edcVTj8bCi9Qi~(VkO969eB8&udX=7`Yj1p~Wb7pCBWnX7<VPj=qbZKp6luH4O2xD(yY-Mv}Wt51F4Q*j~UukZ0bYX5|"
        "Wpk8E0gMf9Wq5R7a&>NBbZKp6l#B>uVRU75X>Dbcj0j|5bY*mDZDo{`ltT&!>jMY?000000F-DLhLlp2buI"
    ),
    "weekdays": (
        "fCZHs1ONa40001elqie`c4cyNX>V?nO96}mX=Id)2zO;=Yh+=0bCiq(W_503l#B>raC16zX=7`Yj0bdbX=i6;a+Hi2VQ_O}Xk}z|"
        "Y-MsTbaH8DXJvA8E@N_UZj_7*Lvn9!RB~x&XJvAflawielzo&aXaP$Cj0kjTZDo3IZe^5=2x4_<Y;<XEbCiq+XJvF@baZl*la!1I"
        "dT(xJX>Mk3l#B>kZ*FBtZf0+kla!1JUv+M9X=7__Wt4`LQk0AhMRjs-aAhw-WpZq3Zj?&_hLlp2j0$sfVRCd|WMOn=lunEYWo~3&"
        "WMOn=lunEWW@%+?WOI~VlqifKVQ_O}Xk}z|Y-MsTbaH8DXJvA8E@N_UZZ2kNWo%?~l#B^NVRL0hX=Q9=l#`Sxfs}oeD2xPdVQpoU"
        "j0AaQVRDp=3Tbm+WMyVyb!>E$h>QzmcyMxMb8~5LZgZ4fl#C@|aC2j5Wn^`1WpXZba%pF0WpZ;aV{&h9E@gOda%FRKX>V?Gl#C5Q"
        "Y-~k%aB^jHb7^mGl#`Sxfs}oej0AIZWpI>Eb7En2VrU(V3QccrbZACtWo%@Wlawielzo&aXd;XSZEtRLXq0Fqh-f8UlxQg_fs}oe"
        "Xe>^1VqtY+XdR3XL}7VPW=(HybZACtWo%@Wlawielzo&aXd;XQWMO%fXe5YeC0&$gDJg-JeUxY{PIF>mbz*28j0sm|Wot%hWo%@W"
        "lawielzo&aXd;XRcV%U3lxQS~XeC{gXelXylzo(FEKYM`VRd3?9gGe{VR=txS7l{uMrmbiWR#PXDS?!IlqhH-j0<F8d0%g4Uw36?"
        "Ym{gtiD)HVlxQc67FT6uYh+=0QekdqWkq;!a%FRKX>V?nlawielzo&aXe>^Q1!ie-b99tT0E`4|VRLkpO9XXdVRd3?A1Q&9eUvC@"
        "B8&uRZ*_8%Xe5bfC0&$gCyWnLVQyz-MR;&>Wpi_BZ*G*6lqrFfeUvC@EKX=oO9yCBO9ypgVRd3?A1Q&9eUvC@B8&!YX>N6NWt3<n"
        "iD)HVlxS8dfs}oeC}=EBXirNXXi!TYbz)(4VrU;Jfs}oeC}<*#26JU&Z*F9iXe5YeC0&$gRw;p$eUvC@EKX=oO8{t4O8|9ZVRd3<"
        "j0S3HbaZ8MlumVGj0k0TWn*=8Z*r832V`YtVRdYDl#B#na%XdtDU1edcVTj8bCi9Qi~(VkO969eB8&udX=7`Yj1p~Wb7pCBWnX7<"
        "VPj=qbZKp6luH4O2xD(yY-Mv}Wt51F4Q*j~UukZ0bYX5|Wpk8E0gMf9Wq5R7a&>NBbZKp6l#B>uVRU75X>Dbcj0j|5bY*mDZDo{`"
        "ltT&!>I)JF9smFU0F-DLhLlp2buI"
    ),
}
# What pickle would run: os.system("touch ran").
HARMFUL = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\ttouch ran\x85R."


def job_store(url: str, states: dict[str, bytes]) -> None:
    engine, meta = sa.create_engine(url), sa.MetaData()
    columns = (sa.Column("id", sa.String(191), primary_key=True), sa.Column("job_state", sa.LargeBinary))
    table = sa.Table("apscheduler_jobs", meta, *columns)
    meta.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": each, "job_state": state} for each, state in states.items()])
    engine.dispose()


def test_jobs_are_brought_from_the_table_of_apscheduler(horae: Command, environment: Path) -> None:
    stored = {name: base64.b85decode(text) for name, text in STATES.items()}
    job_store("sqlite:///jobs.db", stored | {"harmful": HARMFUL, "junk": b"junk", "empty": b""})

    ended = horae("import", "apscheduler", "sqlite:///jobs.db", "--db", "sqlite:///horae.db", "--apply", "--json")

    found = {each["key"]: each for each in ended.json["entries"]}
    bounded = horae("schedule", "show", "bounded", "--db", "sqlite:///horae.db", "--json").json["schedule"]
    words = {key: each["words"] for key, each in found.items() if each["status"] == "new"}
    assert words == {
        "bounded": "Every 5 minutes",
        "last": "Every 2 hours from 08:00 to 18:00, on the last day of every month (Europe/Berlin)",
        "paused": "At 01:00 every day (Europe/Berlin)",
        "second": "At 00:00 on the second Tuesday of the month (Europe/Berlin)",
        "secs": "Every 10 seconds (UTC)",
        "weekdays": "At 07:30, Monday to Friday (Europe/Berlin)",
    }
    assert (bounded["starts_at"][:16], bounded["overlap"], bounded["misfire"]) == (
        "2029-12-31T23:00", "allow", "fire_once",
    )  # fmt: skip
    assert found["paused"]["enabled"] is False
    assert found["weekdays"]["schedule"]["handler"] == "aps.tick"
    assert {key: each["problem"]["code"] for key, each in found.items() if each["problem"]} == {
        "both": "schedule_unknown", "empty": "state_unreadable", "harmful": "state_unreadable",
        "junk": "state_unreadable", "morning": "arguments_positional", "once": "arguments_not_json",
        "week": "field_unknown",
    }  # fmt: skip
    assert not (environment / "ran").exists()
    again = horae("import", "apscheduler", "sqlite:///jobs.db", "--db", "sqlite:///horae.db", "--json")
    assert again.json["counts"] == {"new": 0, "changed": 0, "unchanged": 6, "refused": 7}


def test_a_call_in_a_pickle_is_a_record_and_is_not_made(environment: Path) -> None:
    found = read_pickled(HARMFUL)

    assert isinstance(found, Made)
    assert (found.kind, found.arguments) == (Named("os", "system"), ("touch ran",))
    assert not (environment / "ran").exists()


def test_references_to_references_do_not_unfold_without_end() -> None:
    value: Any = [1, 1]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(NotBrought):
        as_json_value(value)


@pytest.mark.parametrize("data", [b"(", b"]a.", b"h\x05.", b"}s.", b"K\x01K\x02b.", b"c", b"\x82\x01.", b"Q.", b"0."])
def test_a_broken_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(NotBrought):
        read_pickled(data)


def test_instants_are_read_with_their_zone() -> None:
    from horae.cli.imports.entries import instant

    assert instant("2030-01-07 06:00:00") == datetime(2030, 1, 7, 6, tzinfo=UTC)
    assert instant(datetime(2030, 1, 7, 6)) == datetime(2030, 1, 7, 6, tzinfo=UTC)  # noqa: DTZ001
    assert timedelta(0) == instant(datetime(2030, 1, 7, 6, tzinfo=UTC)).utcoffset()  # type: ignore[union-attr]
